"""Waits that a provider asks for and that are longer than what is left of the budget."""

from datetime import timedelta

from announce.model.envelope import encode_envelope
from tests.eventually import eventually
from tests.integration.rig import Rig, encoded, envelope

SHORT = {"BA_DELIVERD_RETRY_BUDGET_MS": "500"}


async def test_the_provider_gets_the_time_that_it_asks_for_and_the_count_goes_on(rig: Rig) -> None:
    rig.provider.control(status=429, retry_after=1, times=2)
    async with rig.service(**SHORT) as service:
        await rig.publish(*encoded(1))
        expected = [("alert-1", n, "failed", "rate_limited") for n in (1, 2)] + [("alert-1", 3, "sent", None)]
        await eventually(rig.attempts, expected)
        await eventually(rig.left, 0)
        assert await service.metric("ba_delivery_messages_settled_total", how="defer") == 2
        assert await service.metric("ba_delivery_messages_settled_total", how="ack") == 1
    rows = await rig.rows("SELECT created_at FROM deliveries ORDER BY created_at")
    first, second, third = (at for (at,) in rows)
    assert second - first >= timedelta(seconds=1)
    assert third - second >= timedelta(seconds=1)
    assert await rig.letters() == []


async def test_after_so_many_deferrals_it_is_a_dead_letter(rig: Rig) -> None:
    rig.provider.control(status=429, retry_after=1)
    async with rig.service(**SHORT, BA_DELIVERD_MAX_DEFERRALS="2"):
        await rig.publish(*encoded(1))
        await eventually(rig.letters, [("alert-1", 3, "rate_limited")])
    assert [row[1] for row in await rig.attempts()] == [1, 2, 3]
    ((first_at, tried_at),) = await rig.rows(
        "SELECT first_attempt_at, (SELECT min(created_at) FROM deliveries) FROM deliveries_dlq"
    )
    assert first_at == tried_at


async def test_what_is_deferred_survives_the_service_and_takes_up_none_of_its_places(rig: Rig) -> None:
    rig.provider.control(target="1", status=429, retry_after=5)
    # Of two places one company gets one.
    settings = SHORT | {"BA_DELIVERD_MAX_IN_FLIGHT": "2"}
    async with rig.service(**settings) as service:
        await rig.publish(*encoded(1))
        await eventually(lambda: service.metric("ba_delivery_messages_settled_total", how="defer"), 1.0)
        await rig.publish(*encoded(2))
        await eventually(lambda: service.metric("ba_deliveries_total", status="sent"), 1.0)
        await service.kill()
    rig.provider.control(clear=True)
    async with rig.service(**settings) as service:
        await eventually(lambda: service.metric("ba_deliveries_total", status="sent"), 1.0)
    expected = [("alert-1", 1, "failed", "rate_limited"), ("alert-2", 1, "sent", None), ("alert-1", 2, "sent", None)]
    assert await rig.attempts() == expected


async def test_what_expires_while_it_is_deferred_is_not_sent(rig: Rig) -> None:
    rig.provider.control(status=429, retry_after=1, times=1)
    async with rig.service(**SHORT):
        await rig.publish(encode_envelope(envelope(1, ttl_s=0.6)))
        await eventually(rig.attempts, [("alert-1", 1, "failed", "rate_limited"), ("alert-1", 1, "expired", "expired")])
    assert rig.provider.summary()["accepted"] == 0
