import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from nats.js.client import JetStreamContext

from announce.bus.connection import Connection, connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.deadends import DeadEnds
from announce.bus.settings import BusSettings
from announce.bus.stored import StoredMessage, delete_message, oldest_waiting, stored_message
from announce.bus.streams import ADVISORIES, ALERTS, DELIVER, durable_consumer
from announce.runtime.background import background
from tests.eventually import eventually
from tests.servers import Nats

SETTINGS = BusSettings(nats_ack_wait_s=1)
DURABLE = durable_consumer("deliverd-telegram", "ba.deliver.telegram.*", SETTINGS).evolve(max_deliver=1)
SUBJECT = "ba.deliver.telegram.demo"


@pytest.fixture
def kept() -> list[StoredMessage]:
    return []


@pytest.fixture
def keep(kept: list[StoredMessage]) -> Callable[[StoredMessage], Awaitable[None]]:
    async def handle(message: StoredMessage) -> None:
        kept.append(message)

    return handle


def count(jetstream: JetStreamContext, stream: str) -> Callable[[], Awaitable[int]]:
    async def messages() -> int:
        return (await jetstream.stream_info(stream)).state.messages

    return messages


async def let_die(bus: Connection, jetstream: JetStreamContext, payloads: list[bytes]) -> None:
    """Publish messages and let them be given up: they are taken once, as often as they may be, and not settled."""
    taken: asyncio.Queue[Delivery] = asyncio.Queue()
    consumer = Consumer(bus, DELIVER, DURABLE, 10, taken.put)
    for payload in payloads:
        await jetstream.publish(SUBJECT, payload, headers={"traceparent": "00-aa-bb-01"})
    async with background(consumer.run(asyncio.Event())), asyncio.timeout(15):
        for _ in payloads:
            await taken.get()

    async def pending() -> int:
        return (await jetstream.consumer_info(DELIVER, "deliverd-telegram")).num_ack_pending or 0

    await eventually(pending, 0)
    await eventually(count(jetstream, ADVISORIES), len(payloads))


async def test_what_was_given_up_is_kept_and_leaves_its_stream(
    bus: Connection,
    jetstream: JetStreamContext,
    kept: list[StoredMessage],
    keep: Callable[[StoredMessage], Awaitable[None]],
) -> None:
    begun = datetime.now(UTC)
    await jetstream.publish("ba.deliver.fcm.demo", b"another channel's")
    await let_die(bus, jetstream, [b"one", b"\x00\xff"])
    async with background(DeadEnds(bus, DELIVER, DURABLE, keep).run(asyncio.Event())):
        await eventually(count(jetstream, ADVISORIES), 0)
    assert {(each.subject, each.data, each.seq) for each in kept} == {(SUBJECT, b"one", 2), (SUBJECT, b"\x00\xff", 3)}
    assert {each.headers["traceparent"] for each in kept} == {"00-aa-bb-01"}
    assert all(begun <= each.published_at <= datetime.now(UTC) for each in kept)
    assert await count(jetstream, DELIVER)() == 1


async def test_what_can_t_be_kept_now_stays_until_it_can(
    bus: Connection, jetstream: JetStreamContext, kept: list[StoredMessage]
) -> None:
    left_in_stream: list[int] = []

    async def third_time_lucky(message: StoredMessage) -> None:
        left_in_stream.append(await count(jetstream, DELIVER)())
        if len(left_in_stream) < 3:
            raise ConnectionError
        kept.append(message)

    await let_die(bus, jetstream, [b"one"])
    async with background(DeadEnds(bus, DELIVER, DURABLE, third_time_lucky, try_again_s=0.1).run(asyncio.Event())):
        await eventually(count(jetstream, ADVISORIES), 0)
    assert left_in_stream == [1, 1, 1]
    assert [each.data for each in kept] == [b"one"]
    assert await count(jetstream, DELIVER)() == 0


async def test_an_advisory_of_what_is_gone_or_another_or_not_understood_does_nothing(
    bus: Connection,
    jetstream: JetStreamContext,
    kept: list[StoredMessage],
    keep: Callable[[StoredMessage], Awaitable[None]],
) -> None:
    await let_die(bus, jetstream, [b"one"])
    await jetstream.delete_msg(DELIVER, 1)
    live = await jetstream.publish(SUBJECT, b"published after the advisory, by a stream that was made anew")
    about = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.BA_DELIVER.deliverd-telegram"
    await jetstream.publish(about, b'{"stream_seq":%d,"timestamp":"2026-01-01T00:00:00Z"}' % live.seq)
    await jetstream.publish(about, b"not JSON")
    assert await count(jetstream, ADVISORIES)() == 3
    async with background(DeadEnds(bus, DELIVER, DURABLE, keep).run(asyncio.Event())):
        await eventually(count(jetstream, ADVISORIES), 0)
    assert kept == []
    assert await count(jetstream, DELIVER)() == 1


@pytest.mark.parametrize("one_is_held", [False, True])
async def test_the_sweep_finds_what_no_advisory_tells_of(
    bus: Connection,
    jetstream: JetStreamContext,
    kept: list[StoredMessage],
    keep: Callable[[StoredMessage], Awaitable[None]],
    *,
    one_is_held: bool,
) -> None:
    await let_die(bus, jetstream, [b"one", b"two"])
    await jetstream.purge_stream(ADVISORIES)
    taken: asyncio.Queue[Delivery] = asyncio.Queue()
    worker = Consumer(bus, DELIVER, DURABLE, 10, taken.put)
    async with background(worker.run(asyncio.Event()), worker.keep_alive()), asyncio.timeout(20):
        if one_is_held:
            # An acknowledgement moves the floor past what was given up, while a later message is still being worked on.
            await jetstream.publish(SUBJECT, b"acked")
            await (await taken.get()).ack()
            await jetstream.publish(SUBJECT, b"held")
            await taken.get()
        async with background(DeadEnds(bus, DELIVER, DURABLE, keep, sweep_every_s=0.2).run(asyncio.Event())):
            await eventually(count(jetstream, DELIVER), int(one_is_held))
            await asyncio.sleep(0.7)  # three more sweeps, which must leave alone what is held
    assert [each.data for each in kept] == [b"one", b"two"]
    assert await count(jetstream, DELIVER)() == int(one_is_held)


async def test_ingestd_s_dead_ends_are_handled_too(
    nats_server: Nats,
    jetstream: JetStreamContext,
    kept: list[StoredMessage],
    keep: Callable[[StoredMessage], Awaitable[None]],
) -> None:
    durable = durable_consumer("ingestd", "ba.alerts.*", SETTINGS).evolve(max_deliver=1)
    taken: asyncio.Queue[Delivery] = asyncio.Queue()
    async with connection(nats_server.url("ingestd")) as ingestd:
        await ingestd.connected()
        await jetstream.publish("ba.alerts.demo", b"alert")
        worker = Consumer(ingestd, ALERTS, durable, 10, taken.put)
        async with background(
            worker.run(asyncio.Event()), DeadEnds(ingestd, ALERTS, durable, keep).run(asyncio.Event())
        ):
            await eventually(count(jetstream, ALERTS), 0)
    assert [each.data for each in kept] == [b"alert"]


async def test_dead_ends_are_handled_after_nats_was_away(
    nats_server: Nats,
    bus: Connection,
    jetstream: JetStreamContext,
    kept: list[StoredMessage],
    keep: Callable[[StoredMessage], Awaitable[None]],
) -> None:
    await let_die(bus, jetstream, [b"one"])
    nats_server.kill()
    await asyncio.wait_for(bus.lost.wait(), 10)

    async def seen() -> list[bytes]:
        return [each.data for each in kept]

    async with background(DeadEnds(bus, DELIVER, DURABLE, keep, sweep_every_s=0.2).run(asyncio.Event())):
        nats_server.start()
        await eventually(seen, [b"one"])


async def test_the_oldest_that_waits_is_known_by_channel(bus: Connection, jetstream: JetStreamContext) -> None:
    assert await oldest_waiting(bus, "ba.deliver.telegram.*") is None
    await jetstream.publish("ba.deliver.fcm.demo", b"")
    first = await jetstream.publish(SUBJECT, b"first")
    await jetstream.publish(SUBJECT, b"second")
    oldest = await stored_message(bus, DELIVER, first.seq)
    assert oldest is not None
    assert await oldest_waiting(bus, "ba.deliver.telegram.*") == oldest.published_at
    await delete_message(bus, DELIVER, first.seq)
    await delete_message(bus, DELIVER, first.seq)
    second = await stored_message(bus, DELIVER, first.seq + 1)
    assert second is not None
    assert await oldest_waiting(bus, "ba.deliver.telegram.*") == second.published_at > oldest.published_at
