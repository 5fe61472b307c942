"""One bad company, target or provider, and all the others."""

from announce.bus.streams import deliver_subject
from announce.model.envelope import encode_envelope
from tests.eventually import eventually
from tests.integration.rig import Rig, encoded, envelope

HANG = range(70_000, 70_300)
QUICK = {"BA_TELEGRAM_MESSAGES_PER_S": "10000"}


def of(company_id: str, *chats: int) -> list[bytes]:
    return [encode_envelope(envelope(chat, company_id=company_id)) for chat in chats]


async def test_a_company_whose_targets_all_hang_holds_up_nobody(rig: Rig) -> None:
    """Three hundred that hang stand before the others in the queue; places for twenty, hands for eight."""
    rig.provider.control(target="70*", hang=True)
    settings = QUICK | {"BA_DELIVERD_MAX_IN_FLIGHT": "20", "BA_DELIVERD_CONCURRENCY": "8"}
    await rig.publish(*of("large", *HANG), subject=deliver_subject("telegram", "large"))
    await rig.publish(*of("small", *range(1, 51)), subject=deliver_subject("telegram", "small"))
    async with rig.service(**settings) as service:

        async def sent() -> int:
            return len(await rig.rows("SELECT FROM deliveries WHERE company_id = 'small' AND status = 'sent'"))

        await eventually(sent, 50)
        assert await rig.left() == len(HANG)
        assert await rig.rows("SELECT FROM deliveries WHERE company_id = 'large' AND status = 'sent'") == []
        # The small company's done, the large one gets its half of the places.
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 10.0)
        assert await service.metric("ba_delivery_messages_settled_total", how="park") >= 290
        rig.provider.control(clear=True)
        await eventually(rig.left, 0, within_s=30)
        assert await service.metric("ba_deliveries_total", status="sent") == 350
    assert rig.provider.summary()["accepted"] == 350


async def test_a_provider_that_is_out_pauses_the_channel_and_fills_no_queue(rig: Rig) -> None:
    rig.provider.control(status=503)
    async with rig.service(**QUICK, BA_DELIVERD_OUTAGE_AFTER="5") as service:
        await rig.publish(*encoded(*range(1, 51)))
        report = await service.readiness(503)
        assert "outage" in report
        assert await service.metric("ba_delivery_paused", cause="outage") == 1
        # Probes go on for longer than all their tries would have taken.
        paused_with = len(await rig.attempts())
        await eventually(lambda: _attempts_of_at_least(rig, paused_with + 3), True, within_s=30)
        assert await rig.letters() == []
        rig.provider.control(clear=True)
        await eventually(rig.left, 0, within_s=40)
        await service.readiness(200)
        assert await service.metric("ba_delivery_paused") == 0
    assert await rig.letters() == []
    assert len(await rig.rows("SELECT FROM deliveries WHERE status = 'sent'")) == 50


async def _attempts_of_at_least(rig: Rig, least: int) -> bool:
    return len(await rig.attempts()) >= least


async def test_an_outage_of_one_company_s_targets_is_not_another_s(rig: Rig) -> None:
    rig.provider.control(target="70*", status=503)
    async with rig.service(**QUICK, BA_DELIVERD_OUTAGE_AFTER="5", BA_DELIVERD_RETRY_BASE_MS="300000") as service:
        await rig.publish(*of("large", *HANG[:20]), subject=deliver_subject("telegram", "large"))
        await service.readiness(503)
        await rig.publish(*of("small", 1), subject=deliver_subject("telegram", "small"))
        sent = "SELECT company_id FROM deliveries WHERE status = 'sent'"
        await eventually(lambda: rig.rows(sent), [("small",)])


async def test_retries_beyond_their_share_wait_in_the_stream_and_cost_no_try(rig: Rig) -> None:
    """160 retries at once, of which the first 100 and 10 a second are free."""
    rig.provider.control(status=500, times=160)
    settings = QUICK | {
        "BA_DELIVERD_RETRY_SHARE": "0",
        "BA_DELIVERD_RETRY_FREE_PER_S": "10",
        "BA_DELIVERD_RETRY_BASE_MS": "0",
        "BA_DELIVERD_RETRY_MAX_MS": "0",
        "BA_DELIVERD_OUTAGE_AFTER": "100000",
    }
    async with rig.service(**settings) as service:
        await rig.publish(*encoded(*range(1, 41)))
        await eventually(rig.left, 0, within_s=60)
        assert await service.metric("ba_delivery_messages_settled_total", how="hand_back") > 0
        assert await service.metric("ba_deliveries_total", status="sent") == 40
    rows = await rig.rows("SELECT alert_id, max(attempts), count(*) FROM deliveries GROUP BY alert_id")
    assert len(rows) == 40
    # Each attempt has its own number, those after a hand-back included.
    assert all(last == made for _, last, made in rows)
