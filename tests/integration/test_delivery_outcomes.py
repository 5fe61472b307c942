"""What is announced of each end."""

from datetime import datetime
from typing import Any

import msgspec
import nats
from nats.js.api import ConsumerConfig

from announce.bus.streams import DELIVER, OUTCOMES
from announce.model.envelope import encode_envelope
from announce.model.identity import delivery_id
from tests.eventually import eventually
from tests.integration.rig import Rig, encoded, envelope


async def announced(rig: Rig) -> list[dict[str, Any]]:
    client = await nats.connect(rig.bus.url())
    try:
        context = client.jetstream()
        count = (await context.stream_info(OUTCOMES)).state.messages
        found = [await context.get_msg(OUTCOMES, seq) for seq in range(1, count + 1)]
        assert {each.subject for each in found} <= {"ba.outcomes.acme"}
        return [msgspec.json.decode(each.data or b"", type=dict[str, Any]) for each in found]
    finally:
        await client.close()


async def test_each_end_is_announced_with_what_it_was(rig: Rig) -> None:
    rig.provider.control(target="2", status=403, error_code="Forbidden: bot was blocked by the user")
    async with rig.service():
        await rig.publish(encode_envelope(envelope(1)), encode_envelope(envelope(2)), b"junk")
        await rig.publish(encode_envelope(envelope(3, ttl_s=0)))
        await eventually(rig.left, 0)
    ends = {event["alert_id"]: event for event in await announced(rig)}
    assert {alert: (end["status"], end["reason"], end["attempts"]) for alert, end in ends.items()} == {
        "alert-1": ("sent", None, 1),
        "alert-2": ("failed", "target_gone", 1),
        "alert-3": ("expired", "expired", 0),
    }
    first = ends["alert-1"]
    assert first["delivery_id"] == str(delivery_id("acme", "alert-1", "telegram", "1"))
    assert (first["v"], first["company_id"], first["channel"], first["target"]) == (1, "acme", "telegram", "1")
    assert first["status_code"] == 200
    assert first["replay_of"] is None
    ((row_at,),) = await rig.rows("SELECT created_at FROM deliveries WHERE alert_id = 'alert-1'")
    assert datetime.fromisoformat(first["occurred_at"]) == row_at


async def test_an_end_whose_message_comes_again_is_announced_again_as_what_it_was(rig: Rig) -> None:
    """As after a crash between the commit and the announcement: the stream of outcomes is empty."""
    rig.provider.control(status=400, error_code="Bad Request: not enough rights to send text messages to the chat")
    (raw,) = encoded(1)
    async with rig.service():
        await rig.publish(raw)
        await eventually(rig.left, 0)
    (before,) = await announced(rig)
    await rig.publish(raw + b" ")
    client = await nats.connect(rig.bus.url())
    await client.jetstream().purge_stream(OUTCOMES)
    subscription = await client.jetstream().pull_subscribe_bind("deliverd-telegram", DELIVER)
    (message,) = await subscription.fetch(1, timeout=5)
    await message.nak()
    async with rig.service():
        await eventually(rig.left, 0)
    found = await client.jetstream().get_last_msg(OUTCOMES, "ba.outcomes.acme")
    await client.close()
    assert msgspec.json.decode(found.data or b"") == before
    assert rig.provider.summary()["total"] == 1


async def test_a_message_that_jetstream_has_given_up_becomes_a_dead_letter(rig: Rig) -> None:
    """Somebody has given the consumer a bound, and has let messages run into it."""
    async with rig.service():
        await eventually(rig.left, 0)
    client = await nats.connect(rig.bus.url())
    context = client.jetstream()
    info = await context.consumer_info(DELIVER, "deliverd-telegram")
    bound: ConsumerConfig = info.config.evolve(max_deliver=1, ack_wait=0.2)
    await context.add_consumer(DELIVER, bound)
    (raw,) = encoded(1)
    await rig.publish(raw, b"junk")
    subscription = await context.pull_subscribe_bind("deliverd-telegram", DELIVER)
    assert len(await subscription.fetch(2, timeout=5)) == 2
    advisories = await client.jetstream().stream_info("BA_ADVISORIES")

    async def noticed() -> int:
        return (await context.stream_info("BA_ADVISORIES")).state.messages

    await eventually(noticed, advisories.state.messages + 2)
    await client.close()
    async with rig.service():
        await eventually(rig.left, 0)
    letters = await rig.rows(
        "SELECT alert_id, reason, attempts, original_subject FROM deliveries_dlq ORDER BY alert_id"
    )
    subject = "ba.deliver.telegram.acme"
    assert letters == [("alert-1", "max_deliveries", 0, subject), (None, "max_deliveries", 0, subject)]
    ends = [(end["alert_id"], end["status"], end["reason"]) for end in await announced(rig)]
    assert ends == [("alert-1", "failed", "max_deliveries")]
