"""Taking work from a durable pull consumer, never more than there is room for.

nats-py's own fetch() costs several times more, loses messages when it is cancelled, and waits out its timeout when
the server restarts; hence this: one inbox, and pull requests that keep as many messages asked for as there is room.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import ConsumerConfig
from nats.js.errors import Error as JetStreamError

from announce.bus.connection import Connection
from announce.bus.source import Source
from announce.observe.logging import event as log_event
from announce.runtime.background import background
from announce.runtime.backoff import Backoff, wait_for_event

log = logging.getLogger(__name__)

DEFAULT_ACK_WAIT_S: Final = 30.0
PULL_EXPIRES_S: Final = 20.0
HEARTBEAT_S: Final = 2.0
SILENCE_S: Final = 3 * HEARTBEAT_S
NOT_TAKEN_DELAY_S: Final = 30.0
STATUS_HEADER: Final = "Status"
PENDING_HEADER: Final = "Nats-Pending-Messages"
HEARTBEAT: Final = "100"

# $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>; the longer form has a domain
# and an account's hash before the stream.
_ACK_TOKENS: Final = 9
_COUNTS_AT: Final = 4


@dataclass(frozen=True, slots=True)
class Origin:
    """What JetStream says of a message, read from its acknowledgement subject."""

    num_delivered: int
    stream_seq: int
    published_at: datetime

    @property
    def identity(self) -> tuple[int, datetime]:
        """What tells it from every other message, those of a stream that was made anew included."""
        return self.stream_seq, self.published_at


class Delivery:
    """One message that a consumer was handed. Whoever holds it settles it, once."""

    __slots__ = ("_client", "_msg", "_release", "_when_settled", "origin", "settled")

    def __init__(self, client: Client, msg: Msg, release: Callable[["Delivery"], None]) -> None:
        self._client = client
        self._msg = msg
        self._release = release
        self._when_settled: Callable[[Delivery], None] | None = None
        self.origin = _origin(msg.reply)
        self.settled = False

    @property
    def subject(self) -> str:
        """The subject that it was published on."""
        return self._msg.subject

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._msg.data

    @property
    def source(self) -> Source:
        """What it was published as."""
        return Source(self.subject, self.data, self.origin.stream_seq, self.origin.published_at)

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        return self._msg.headers.get(name) if self._msg.headers else None

    def renew(self, again: "Delivery") -> None:
        """Settle it as what it was handed out as once more: JetStream has given up on the time before."""
        self._client, self._msg = again._client, again._msg  # noqa: SLF001 - of the same class

    def when_settled(self, call: "Callable[[Delivery], None]") -> None:
        """Have this called when the message is settled."""
        self._when_settled = call

    async def ack(self) -> None:
        """Settle it as done: JetStream forgets it."""
        await self._settle(b"+ACK")

    async def hand_back(self, delay_s: float = 0.0) -> None:
        """Settle it as not done: JetStream delivers it again, after `delay_s`."""
        await self._settle(b"-NAK" + (msgspec.json.encode({"delay": int(delay_s * 1e9)}) if delay_s else b""))

    async def in_progress(self) -> None:
        """Say that it is still being worked on, so that nobody else gets it."""
        await self._send(b"+WPI")

    async def _settle(self, word: bytes) -> None:
        if self.settled:
            raise RuntimeError("a message is settled once")
        self.settled = True
        self._release(self)
        if self._when_settled:
            self._when_settled(self)
        await self._send(word)

    async def _send(self, word: bytes) -> None:
        # A word that is lost costs a redelivery, which every consumer of ours must bear anyway.
        with suppress(NatsError):
            await self._client.publish(self._msg.reply, word)


class Consumer:
    """Keeps up to `capacity` messages of one durable in the hands of `handle`.

    Args:
        connection: the connection to pull over.
        stream: the stream's name.
        config: the durable; it is created where it is missing.
        capacity: how many messages may be unsettled at once.
        handle: gets each message; it must not wait for anything but NATS.
        limit: how many to hold now, at most `capacity`.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        config: ConsumerConfig,
        capacity: int,
        handle: Callable[[Delivery], Awaitable[None]],
        limit: Callable[[], int] | None = None,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._config = config
        self._capacity = capacity
        self._handle = handle
        self._limit = limit or (lambda: capacity)
        self._ack_wait_s = config.ack_wait or DEFAULT_ACK_WAIT_S
        self._held: dict[tuple[int, datetime], Delivery] = {}
        self._emptied = asyncio.Event()
        self._asked = 0
        self._wake = asyncio.Event()
        self._heard_at = 0.0

    async def run(self, stopping: asyncio.Event) -> None:
        """Pull until `stopping` is set, through every loss of the connection or of the consumer."""
        backoff = Backoff()
        while not stopping.is_set():
            client = await self._client(stopping)
            if client is None:
                return
            try:
                await client.jetstream().add_consumer(self._stream, self._config)
                backoff.reset()
                await self._pull(client, stopping)
            except (NatsError, JetStreamError, TimeoutError) as error:
                log_event(log, logging.WARNING, "consumer unavailable", stream=self._stream, error=type(error).__name__)
            if not stopping.is_set():
                await backoff.wait(stopping)

    @property
    def held(self) -> int:
        """How many messages have been handed out and not been settled."""
        return len(self._held)

    def look_again(self) -> None:
        """Ask for more at once, if the limit has become higher."""
        self._wake.set()

    async def keep_alive(self) -> None:
        """Keep telling JetStream that held messages are being worked on. Ends by cancellation."""
        while True:
            await asyncio.sleep(self._ack_wait_s / 3)
            for delivery in list(self._held.values()):
                if not delivery.settled:
                    await delivery.in_progress()

    async def rest(self, grace_s: float) -> list[Delivery]:
        """Wait for everything held to be settled, but for at most `grace_s`; return what isn't."""
        if self._held:
            self._emptied.clear()
            await wait_for_event(self._emptied, max(grace_s, 0))
        return list(self._held.values())

    async def _client(self, stopping: asyncio.Event) -> Client | None:
        """Wait for a connection, but not for longer than the service is to run."""
        while not stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    return await self._connection.connected()
        return None

    async def _pull(self, client: Client, stopping: asyncio.Event) -> None:
        """Ask for messages over one inbox until it falls silent."""
        loop = asyncio.get_running_loop()
        inbox = client.new_inbox()

        async def receive(msg: Msg) -> None:
            self._heard_at = loop.time()
            # A producer can put a Status header into a message of its own; only JetStream's word has no reply subject.
            if msg.headers and STATUS_HEADER in msg.headers and not msg.reply:
                self._note_status(msg)
            elif msg.reply:
                self._asked -= 1
                await self._receive(Delivery(client, msg, self._release))

        lost = self._connection.lost
        subscription = await client.subscribe(inbox, cb=receive)
        self._asked = 0
        self._heard_at = loop.time()
        async with background(self._wake_on(stopping), self._wake_on(lost)):
            try:
                while not (stopping.is_set() or lost.is_set()) and loop.time() - self._heard_at < SILENCE_S:
                    await self._ask(client, inbox)
                    self._wake.clear()
                    await wait_for_event(self._wake, HEARTBEAT_S)
            finally:
                with suppress(NatsError):
                    await subscription.unsubscribe()

    async def _receive(self, delivery: Delivery) -> None:
        held = self._held.get(delivery.origin.identity)
        if held is None:
            self._held[delivery.origin.identity] = delivery
            await self._hand_over(delivery)
        else:
            # We couldn't say in time that we are working on it.
            held.renew(delivery)

    async def _hand_over(self, delivery: Delivery) -> None:
        try:
            await self._handle(delivery)
        except Exception:
            # Nobody would settle it, and it would be kept from everybody else for as long as we run.
            log.exception("message not taken", extra={"fields": {"stream": self._stream}})
            if not delivery.settled:
                await delivery.hand_back(NOT_TAKEN_DELAY_S)

    async def _wake_on(self, event: asyncio.Event) -> None:
        await event.wait()
        self._wake.set()

    async def _ask(self, client: Client, inbox: str) -> None:
        room = self._room()
        # Asking in larger steps saves requests; asking for the last bit of room at once saves nothing.
        if room <= 0 or (self._asked and room < self._capacity // 4):
            return
        request = {"batch": room, "expires": int(PULL_EXPIRES_S * 1e9), "idle_heartbeat": int(HEARTBEAT_S * 1e9)}
        self._asked += room
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._config.durable_name}"
        await client.publish(subject, msgspec.json.encode(request), reply=inbox)

    def _room(self) -> int:
        # One must be there, whatever the limit: it finds out whether others can come.
        return max(self._limit(), 1) - len(self._held) - self._asked

    def _note_status(self, msg: Msg) -> None:
        headers = msg.headers or {}
        if headers[STATUS_HEADER] == HEARTBEAT:
            return
        # The request has ended: so many of what it asked for will not come.
        self._asked -= int(headers.get(PENDING_HEADER, self._asked))
        if PENDING_HEADER not in headers:
            self._heard_at = 0.0
        self._wake.set()

    def _release(self, delivery: Delivery) -> None:
        del self._held[delivery.origin.identity]
        self._wake.set()
        if not self._held:
            self._emptied.set()


def _origin(reply: str) -> Origin:
    tokens = reply.split(".")
    start = _COUNTS_AT if len(tokens) == _ACK_TOKENS else _COUNTS_AT + 2
    delivered, stream_seq, _, nanoseconds = tokens[start : start + 4]
    return Origin(int(delivered), int(stream_seq), datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC))
