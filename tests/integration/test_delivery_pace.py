"""Telegram's limits, kept to by all replicas together."""

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


async def test_chats_that_are_limited_for_a_day_hold_up_neither_others_nor_the_stop(rig: Rig) -> None:
    """Five limited chats in a row look like a limited bot, for a minute at most."""
    rig.provider.control(target="7*", status=429, retry_after=86_400)
    async with rig.service(BA_SHUTDOWN_GRACE_S="300") as service:
        await rig.publish(*encoded(71, 72, 73, 74))
        await eventually(lambda: service.metric("ba_delivery_messages_settled_total", how="defer"), 4.0)
        await rig.publish(*encoded(1))
        await eventually(lambda: service.metric("ba_deliveries_total", status="sent"), 1.0)
        await rig.publish(*encoded(75, 76, 77, 78, 79))
        await eventually(lambda: service.metric("ba_delivery_messages_settled_total", how="defer"), 9.0)
        await rig.publish(*encoded(2))
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 1.0)
        assert await service.terminate() == 0
    assert await rig.left() == 1
