"""Telegram's limits, kept to by all replicas together."""

from announce.bus.streams import deliver_subject
from announce.model.envelope import encode_envelope
from tests.eventually import eventually
from tests.integration.rig import Rig, encoded, envelope


async def test_replicas_keep_to_the_provider_s_limits_together(rig: Rig) -> None:
    """The provider answers 429 to whoever goes beyond: nobody does."""
    rig.provider.control(rate_limit=True, bot_per_s=30, chat_per_s=1)
    async with rig.service(), rig.service():
        alerts = [encode_envelope(envelope(7)).replace(b"alert-7", b"alert-%d" % number) for number in range(100, 104)]
        await rig.publish(*encoded(*range(1, 61)), *alerts)
        await eventually(rig.left, 0, within_s=30)
    assert len(await rig.rows("SELECT FROM deliveries WHERE status = 'sent'")) == 64
    assert await rig.rows("SELECT FROM deliveries WHERE status <> 'sent'") == []


async def test_a_chat_that_is_limited_all_the_same_is_left_alone(rig: Rig) -> None:
    rig.provider.control(target="7", status=429, retry_after=2, times=1)
    alerts = [encode_envelope(envelope(7)).replace(b"alert-7", b"alert-%d" % number) for number in range(100, 103)]
    async with rig.service(BA_TELEGRAM_CHAT_INTERVAL_S="0.5"):
        await rig.publish(*alerts)
        await eventually(rig.left, 0, within_s=30)
    failed = await rig.rows("SELECT reason FROM deliveries WHERE status = 'failed'")
    assert failed == [("rate_limited",)]


def of(company_id: str, *chats: int) -> list[bytes]:
    return [encode_envelope(envelope(chat, company_id=company_id)) for chat in chats]


async def test_chats_of_one_company_that_are_limited_hold_up_nobody_else(rig: Rig) -> None:
    rig.provider.control(target="7*", status=429, retry_after=86_400)
    async with rig.service() as service:
        await rig.publish(*encoded(*range(71, 79)))
        await eventually(lambda: service.metric("ba_delivery_messages_settled_total", how="defer"), 8.0)
        await rig.publish(*of("other", 1), subject=deliver_subject("telegram", "other"))
        await eventually(lambda: service.metric("ba_deliveries_total", status="sent"), 1.0)


async def test_a_bot_that_seems_to_be_limited_for_a_day_does_not_hold_up_the_stop(rig: Rig) -> None:
    rig.provider.control(target="7*", status=429, retry_after=86_400)
    # Longer than a program under test may take to end.
    async with rig.service(BA_SHUTDOWN_GRACE_S="300") as service:
        await rig.publish(*encoded(71, 72, 73))
        await rig.publish(*of("other", 74, 75), subject=deliver_subject("telegram", "other"))
        await eventually(lambda: service.metric("ba_delivery_messages_settled_total", how="defer"), 5.0)
        await rig.publish(*encoded(2))
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 1.0)
        assert await service.terminate() == 0
    assert await rig.left() == 1
