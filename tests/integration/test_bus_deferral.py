import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from nats.js.client import JetStreamContext

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.deferral import DEFERRALS_HEADER, DUE_HEADER, Deferral, DueDeliveries, deferrals_of
from announce.bus.settings import BusSettings, StreamSettings
from announce.bus.setup import create_streams
from announce.bus.streams import DEFERRED, DELIVER, durable_consumer
from announce.runtime.background import background
from tests.eventually import eventually
from tests.messages import message
from tests.servers import Nats

DURABLE = "deliverd-telegram"
SUBJECT = "ba.deliver.telegram.demo"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PAYLOAD = bytes(range(256))
FIRST, SECOND = UUID(int=1), UUID(int=2)
SETTINGS = BusSettings(nats_ack_wait_s=2)
LONG_S = 600.0


def count(jetstream: JetStreamContext, stream: str) -> Callable[[], Awaitable[int]]:
    async def messages() -> int:
        return (await jetstream.stream_info(stream)).state.messages

    return messages


def pending(jetstream: JetStreamContext, stream: str) -> Callable[[], Awaitable[int]]:
    async def ack_pending() -> int:
        return (await jetstream.consumer_info(stream, DURABLE)).num_ack_pending or 0

    return ack_pending


@asynccontextmanager
async def bringing_back(bus: Connection) -> AsyncIterator[None]:
    due = DueDeliveries(bus, DURABLE, "telegram", SETTINGS, try_again_s=0.2)
    async with background(due.run(asyncio.Event())):
        yield


@asynccontextmanager
async def working(bus: Connection) -> AsyncIterator[Callable[[], Awaitable[Delivery]]]:
    """The service: what is due is brought back, and what waits is taken."""
    taken: asyncio.Queue[Delivery] = asyncio.Queue()
    consumer = Consumer(bus, DELIVER, durable_consumer(DURABLE, "ba.deliver.telegram.*", SETTINGS), 10, taken.put)

    async def take() -> Delivery:
        async with asyncio.timeout(20):
            return await taken.get()

    async with bringing_back(bus), background(consumer.run(asyncio.Event())):
        yield take


async def defer(bus: Connection, delivery_id: UUID, delay_s: float, *, data: bytes = PAYLOAD, seq: int = 1) -> None:
    headers = {"traceparent": TRACE, "Nats-Msg-Id": "of the message that is put off"}
    delivery = message(SUBJECT, seq=seq, data=data, headers=headers)
    await Deferral(bus).defer(delivery, delivery_id, 2, delay_s)


@pytest.mark.parametrize("delay_s", [-1.0, 0.0, 0.05, 0.7, 1.5])
async def test_what_is_put_off_comes_again_as_it_was_and_not_before_its_time(bus: Connection, delay_s: float) -> None:
    async with working(bus) as take:
        due = time.time() + delay_s
        await defer(bus, FIRST, delay_s)
        again = await take()
        assert time.time() > due - 0.002
        assert (again.subject, again.data) == (SUBJECT, PAYLOAD)
        assert (again.header("traceparent"), again.header(DEFERRALS_HEADER)) == (TRACE, "2")


async def test_what_is_put_off_does_not_count_as_held(bus: Connection, jetstream: JetStreamContext) -> None:
    async with working(bus):
        await defer(bus, FIRST, LONG_S)

        await eventually(pending(jetstream, DEFERRED), 1)
        assert await pending(jetstream, DELIVER)() == 0
        assert await count(jetstream, DELIVER)() == 0


async def test_many_due_at_once_all_come_back(bus: Connection, jetstream: JetStreamContext) -> None:
    ids = [UUID(int=number) for number in range(2000)]
    await asyncio.gather(*(defer(bus, each, 0.5, seq=each.int) for each in ids))
    async with bringing_back(bus):
        await eventually(count(jetstream, DELIVER), 2000)
        await eventually(count(jetstream, DEFERRED), 0)


async def test_putting_the_same_message_off_twice_is_the_same_as_once(
    bus: Connection, jetstream: JetStreamContext
) -> None:
    async with working(bus) as take:
        await defer(bus, FIRST, 0.2)
        await defer(bus, FIRST, 0.2)
        await take()
        await defer(bus, FIRST, 0.2)  # as after a crash before the first one's acknowledgement
        await defer(bus, SECOND, 0.2, data=b"second")
        assert (await take()).data == b"second"
        await eventually(count(jetstream, DEFERRED), 0)
        assert await count(jetstream, DELIVER)() == 2


async def test_a_replay_of_the_same_delivery_is_no_repetition(bus: Connection) -> None:
    async with working(bus) as take:
        await defer(bus, FIRST, 0.1, data=b"first", seq=1)
        assert (await take()).data == b"first"
        await defer(bus, FIRST, 0.1, data=b"replay", seq=7)
        assert (await take()).data == b"replay"


async def test_another_message_of_the_same_delivery_takes_the_place_of_the_first(
    bus: Connection, jetstream: JetStreamContext
) -> None:
    async with working(bus) as take:
        await defer(bus, FIRST, LONG_S, data=b"first", seq=1)
        await defer(bus, FIRST, 0.3, data=b"second", seq=2)
        assert await count(jetstream, DEFERRED)() == 1
        assert (await take()).data == b"second"
        await eventually(count(jetstream, DEFERRED), 0)
        assert await count(jetstream, DELIVER)() == 1


async def test_what_is_put_off_outlives_nats(nats_server: Nats, bus: Connection, jetstream: JetStreamContext) -> None:
    async with working(bus) as take:
        due = time.time() + 6
        await defer(bus, FIRST, 6, data=b"later", seq=1)
        await defer(bus, SECOND, 1, data=b"due while it was away", seq=2)

        await eventually(pending(jetstream, DEFERRED), 2)
        nats_server.kill()
        await asyncio.wait_for(bus.lost.wait(), 10)
        with pytest.raises(BusUnavailable):
            await defer(bus, FIRST, 1)
        await asyncio.sleep(1)  # until the second one's time has passed
        nats_server.start()
        await bus.connected()
        back: set[bytes] = set()
        while b"later" not in back:
            again = await take()
            back.add(again.data)
            await again.ack()
        assert time.time() > due - 0.002
        assert back == {b"later", b"due while it was away"}
        await eventually(count(jetstream, DEFERRED), 0)


async def test_what_is_due_while_the_stream_is_full_comes_when_there_is_room(
    bus: Connection, jetstream: JetStreamContext, caplog: pytest.LogCaptureFixture
) -> None:
    await create_streams(jetstream, StreamSettings(nats_deliver_max_bytes=1 << 20))
    fillers = [await jetstream.publish("ba.deliver.fcm.demo", bytes(170_000)) for _ in range(6)]
    await defer(bus, FIRST, 0.1, data=bytes(50_000))

    async def refused() -> bool:
        return "not brought back yet" in caplog.text

    async with working(bus) as take:
        await eventually(refused, expected=True)
        assert await count(jetstream, DEFERRED)() == 1
        await jetstream.delete_msg(DELIVER, fillers[0].seq)
        assert (await take()).data == bytes(50_000)
        await eventually(count(jetstream, DEFERRED), 0)


async def test_nothing_is_put_off_when_there_is_no_room_for_it(bus: Connection, jetstream: JetStreamContext) -> None:
    await create_streams(jetstream, StreamSettings(nats_deliver_max_bytes=1 << 20))
    await defer(bus, FIRST, LONG_S, data=bytes(200_000))
    with pytest.raises(BusUnavailable, match="maximum bytes exceeded"):
        await defer(bus, SECOND, LONG_S, data=bytes(200_000))
    assert await count(jetstream, DEFERRED)() == 1


@pytest.mark.parametrize("due", ["soon", "-1", "1.5", "9" * 5000, "\u0663", ""])
async def test_one_that_says_in_no_way_of_ours_when_it_is_due_comes_back_at_once(
    bus: Connection, jetstream: JetStreamContext, due: str
) -> None:
    async with working(bus) as take:
        headers = {DUE_HEADER: due, DEFERRALS_HEADER: due} if due else None
        await jetstream.publish(f"ba.deferred.telegram.demo.{FIRST}", PAYLOAD, headers=headers)
        again = await take()
        assert again.data == PAYLOAD
        assert deferrals_of(again) == 0
        await eventually(count(jetstream, DEFERRED), 0)
