import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import nats
import pytest
from nats.aio.client import Client
from nats.errors import TimeoutError as NatsTimeoutError

from announce.bus.connection import BusUnavailable, Connection, connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.publisher import OutgoingMessage, Publisher
from announce.bus.settings import BusSettings, StreamSettings
from announce.bus.setup import create_streams
from announce.bus.streams import DELIVER, deliver_subject, durable_consumer
from announce.runtime.background import background
from tests.eventually import eventually
from tests.servers import Nats

SUBJECT = deliver_subject("fcm", "demo")
DURABLE = durable_consumer("deliverd-fcm", deliver_subject("fcm", "*"), BusSettings(nats_ack_wait_s=1))


def messages(start: int, count: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(SUBJECT, b"%d" % number, f"id-{number}") for number in range(start, start + count)]


@pytest.fixture
async def ingestd(nats_server: Nats) -> AsyncIterator[Connection]:
    async with connection(nats_server.url("ingestd")) as opened:
        await opened.connected()
        yield opened


@pytest.fixture
async def deliverd(nats_server: Nats) -> AsyncIterator[Connection]:
    async with connection(nats_server.url("deliverd_fcm")) as opened:
        await opened.connected()
        yield opened


async def test_many_publish_at_once_and_each_gets_its_own_place(ingestd: Connection) -> None:
    publisher = Publisher(ingestd)
    receipts = await publisher.publish_all(messages(0, 1000))
    assert [receipt.seq for receipt in receipts] == list(range(1, 1001))
    assert not any(receipt.duplicate for receipt in receipts)


async def test_what_comes_twice_is_kept_once_whatever_it_is_mixed_with(ingestd: Connection, nats_server: Nats) -> None:
    publisher = Publisher(ingestd)
    await publisher.publish_all(messages(0, 50))
    receipts = await publisher.publish_all(messages(25, 50))
    assert [receipt.duplicate for receipt in receipts] == [True] * 25 + [False] * 25
    async with connection(nats_server.url()) as admin:
        info = await (await admin.connected()).jetstream().stream_info(DELIVER)
    assert info.state.messages == 75


async def test_a_full_stream_refuses_and_says_so(nats_server: Nats, ingestd: Connection) -> None:
    async with connection(nats_server.url()) as admin:
        small = StreamSettings(nats_deliver_max_bytes=1 << 20)
        await create_streams((await admin.connected()).jetstream(), small)
    publisher = Publisher(ingestd)
    big = [OutgoingMessage(SUBJECT, bytes(100_000), f"big-{number}") for number in range(12)]
    outcomes = await publisher.publish_each(big)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BusUnavailable)]
    assert 0 < len(refused) < len(big)
    assert "maximum bytes exceeded" in str(refused[0])


async def test_publishing_fails_at_once_while_nats_is_away_and_works_again_after(
    nats_server: Nats, ingestd: Connection
) -> None:
    publisher = Publisher(ingestd)
    nats_server.kill()
    await asyncio.wait_for(ingestd.lost.wait(), 5)
    with pytest.raises(BusUnavailable):
        await publisher.publish(messages(0, 1)[0])
    nats_server.start()
    await ingestd.connected()
    assert not (await publisher.publish(messages(0, 1)[0])).duplicate


class Hands:
    """Takes messages from a consumer."""

    def __init__(self, bus: Connection, capacity: int) -> None:
        self.taken: asyncio.Queue[Delivery] = asyncio.Queue()
        self.consumer = Consumer(bus, DELIVER, DURABLE, capacity, self.taken.put)

    async def take(self, count: int) -> list[Delivery]:
        async with asyncio.timeout(15):
            return [await self.taken.get() for _ in range(count)]


@pytest.fixture
def hands(deliverd: Connection) -> Callable[[int], Hands]:
    return lambda capacity: Hands(deliverd, capacity)


def left(nats_server: Nats) -> Callable[[], Awaitable[int]]:
    """Count what the stream still holds."""

    async def count() -> int:
        client = await nats.connect(nats_server.url())
        try:
            return (await client.jetstream().stream_info(DELIVER)).state.messages
        finally:
            await client.close()

    return count


async def test_no_more_is_held_than_there_is_room_for(
    nats_server: Nats, ingestd: Connection, hands: Callable[[int], Hands]
) -> None:
    await Publisher(ingestd).publish_all(messages(0, 100))
    worker, stopping = hands(10), asyncio.Event()
    async with background(worker.consumer.run(stopping), worker.consumer.keep_alive()):
        seen: set[bytes] = set()
        while len(seen) < 100:
            held = await worker.take(10)
            assert worker.taken.empty()
            assert worker.consumer.held == 10
            seen |= {each.data for each in held}
            for each in held:
                await each.ack()
        await eventually(left(nats_server), 0)
        stopping.set()


async def test_held_messages_stay_with_their_holder_for_longer_than_the_ack_wait(
    ingestd: Connection, hands: Callable[[int], Hands]
) -> None:
    await Publisher(ingestd).publish_all(messages(0, 3))
    worker, stopping = hands(10), asyncio.Event()
    async with background(worker.consumer.run(stopping), worker.consumer.keep_alive()):
        held = await worker.take(3)
        await asyncio.sleep(2.5)  # longer than twice the durable's ack_wait: nothing may come again meanwhile
        assert worker.taken.empty()
        await held[0].hand_back()
        again = await worker.take(1)
        assert (again[0].data, again[0].origin.num_delivered) == (held[0].data, 2)
        stopping.set()


async def test_consuming_goes_on_after_nats_was_killed_and_after_the_durable_was_deleted(
    nats_server: Nats, ingestd: Connection, deliverd: Connection, hands: Callable[[int], Hands]
) -> None:
    worker, stopping = hands(10), asyncio.Event()
    publisher = Publisher(ingestd)
    async with background(worker.consumer.run(stopping)):
        await publisher.publish_all(messages(0, 1))
        await (await worker.take(1))[0].ack()
        await eventually(left(nats_server), 0)
        nats_server.kill()
        await asyncio.gather(ingestd.lost.wait(), deliverd.lost.wait())
        nats_server.start()
        await ingestd.connected()
        await publisher.publish_all(messages(10, 1))
        await (await worker.take(1))[0].ack()
        await eventually(left(nats_server), 0)
        admin = await nats.connect(nats_server.url())
        await admin.jetstream().delete_consumer(DELIVER, "deliverd-fcm")
        await admin.close()
        await publisher.publish_all(messages(20, 1))
        assert (await worker.take(1))[0].data == b"20"
        stopping.set()


async def test_consuming_goes_on_after_the_client_library_has_closed_the_connection_for_good(
    ingestd: Connection, deliverd: Connection, hands: Callable[[int], Hands]
) -> None:
    worker, stopping = hands(10), asyncio.Event()
    async with background(worker.consumer.run(stopping)):
        await Publisher(ingestd).publish_all(messages(0, 1))
        await (await worker.take(1))[0].ack()
        closed = deliverd.client
        # The library looks at the payload alone; the server counts the headers too, and answers with an error.
        await closed.publish("ba.outcomes.acme", bytes(900_000), headers={"X": "x" * 200_000})
        await deliverd.lost.wait()
        await Publisher(ingestd).publish_all(messages(10, 1))
        assert (await worker.take(1))[0].data == b"10"
        assert closed.is_closed
        stopping.set()


async def test_a_message_that_breaks_whoever_takes_it_is_handed_back_and_holds_up_nobody(
    nats_server: Nats, ingestd: Connection, deliverd: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    taken: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(delivery: Delivery) -> None:
        if delivery.data == b"0":
            raise ValueError("odd")
        await delivery.ack()
        taken.put_nowait(delivery.data)

    consumer = Consumer(deliverd, DELIVER, DURABLE, 1, take)
    await Publisher(ingestd).publish_all(messages(0, 2))
    async with background(consumer.run(asyncio.Event())):
        async with asyncio.timeout(15):
            assert await taken.get() == b"1"
        assert consumer.held == 0
    assert "message not taken" in caplog.text
    assert await left(nats_server)() == 1


async def test_a_message_is_settled_once(ingestd: Connection, hands: Callable[[int], Hands]) -> None:
    await Publisher(ingestd).publish_all(messages(0, 1))
    worker, stopping = hands(1), asyncio.Event()
    async with background(worker.consumer.run(stopping)):
        (only,) = await worker.take(1)
        await only.ack()
        with pytest.raises(RuntimeError, match="settled once"):
            await only.hand_back()
        stopping.set()


async def test_what_is_not_settled_within_the_grace_is_left_to_be_handed_back(
    ingestd: Connection, hands: Callable[[int], Hands]
) -> None:
    await Publisher(ingestd).publish_all(messages(0, 5))
    first, stopping = hands(10), asyncio.Event()
    async with background(first.consumer.run(stopping)):
        held = await first.take(5)
        await held[0].ack()
        stopping.set()
    rest = await first.consumer.rest(0.05)
    assert set(rest) == set(held[1:])
    for each in rest:
        await each.hand_back()
    second, stopping = hands(10), asyncio.Event()
    async with background(second.consumer.run(stopping)):
        assert {each.data for each in await second.take(4)} == {each.data for each in held[1:]}
        stopping.set()


@pytest.fixture
async def producer(nats_server: Nats) -> AsyncIterator[tuple[Client, list[str]]]:
    """The demo company's producer, as its own code would connect; with what the server told it of errors."""
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error))

    client = await nats.connect(nats_server.url("producer-demo"), error_cb=note)
    yield client, errors
    await client.close()


async def test_a_producer_can_publish_to_its_own_company(producer: tuple[Client, list[str]]) -> None:
    context = producer[0].jetstream()
    assert (await context.publish("ba.alerts.demo", b"{}")).stream == "BA_ALERTS"


@pytest.mark.parametrize(
    "subject",
    ["ba.alerts.other", "ba.alerts.*", "ba.deliver.fcm.demo", "ba.outcomes.demo", "$JS.API.STREAM.PURGE.BA_ALERTS"],
)
async def test_a_producer_can_publish_nowhere_else(producer: tuple[Client, list[str]], subject: str) -> None:
    client, errors = producer
    with pytest.raises(NatsTimeoutError):
        await client.request(subject, b"{}", timeout=0.3)
    assert any("permissions violation for publish" in error for error in errors)


@pytest.mark.parametrize("subject", [">", "ba.>", "ba.alerts.demo", "ba.deliver.>", "$JS.API.>", "_INBOX_ingestd.>"])
async def test_a_producer_can_read_nothing(producer: tuple[Client, list[str]], subject: str) -> None:
    client, errors = producer
    await client.subscribe(subject)

    async def refused() -> bool:
        return any("permissions violation for subscription" in error for error in errors)

    await eventually(refused, expected=True)


async def test_a_producer_s_inbox_shows_nobody_else_s_replies(
    nats_server: Nats, producer: tuple[Client, list[str]]
) -> None:
    client, errors = producer
    overheard = await client.subscribe("_INBOX.>")
    await client.flush()
    assert errors == []
    other = await nats.connect(nats_server.url())
    await other.jetstream().publish("ba.alerts.demo", b"{}")
    await other.close()
    await client.flush()
    assert overheard.pending_msgs == 0
