"""Messages that JetStream doesn't hand out any more and that would sit in their stream, unseen, for ever.

A durable with a bound on deliveries gives a message up when it is reached. nats-server says so once, in an advisory,
which the stream BA_ADVISORIES keeps. Advisories are sent at most once: a sweep finds what one that was lost told of.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import msgspec
from nats.errors import Error as NatsError
from nats.js.api import ConsumerConfig
from nats.js.errors import NotFoundError

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.stored import StoredMessage, delete_message, next_message, stored_message
from announce.bus.streams import ADVISORIES, advisories_subject
from announce.observe.logging import event
from announce.runtime.background import Tasks
from announce.runtime.backoff import wait_for_event

log = logging.getLogger(__name__)

CAPACITY: Final = 10
TRY_AGAIN_S: Final = 5.0
SWEEP_EVERY_S: Final = 60.0
FINISH_S: Final = 2.0
MAX_SWEPT: Final = 100
"""A sweep looks at so many; the next one at the next."""


class _Advisory(msgspec.Struct):
    stream_seq: int
    timestamp: datetime


_decode: Final = msgspec.json.Decoder(_Advisory).decode


class DeadEnds:
    """Gives each message that a durable has given up to `handle`, then deletes it from its stream.

    Args:
        connection: the connection to NATS.
        stream: the stream of the durable.
        config: the durable.
        handle: keeps the message elsewhere. It may be called twice for one message, by two processes at once even, and
            raises when it can't keep it now.
        sweep_every_s: how often to look for messages whose advisory was lost; a message must be found twice.
        try_again_s: when to come back to a message that couldn't be kept.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        config: ConsumerConfig,
        handle: Callable[[StoredMessage], Awaitable[None]],
        sweep_every_s: float = SWEEP_EVERY_S,
        try_again_s: float = TRY_AGAIN_S,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._durable = config.durable_name or ""
        self._subject = config.filter_subject or ">"
        self._handle = handle
        self._sweep_every_s = sweep_every_s
        self._try_again_s = try_again_s
        self._suspects: set[int] = set()
        advisories = config.evolve(filter_subject=advisories_subject(stream, self._durable), max_deliver=-1)
        self._consumer = Consumer(connection, ADVISORIES, advisories, CAPACITY, self._take)
        self._tasks = Tasks()

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set, through every loss of NATS."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sweep_always(stopping))
            await self._consumer.run(stopping)
            await self._tasks.finish(FINISH_S)

    async def _take(self, delivery: Delivery) -> None:
        self._tasks.start(self._follow(delivery))

    async def _follow(self, delivery: Delivery) -> None:
        try:
            advisory = _decode(delivery.data)
            message = await stored_message(self._connection, self._stream, advisory.stream_seq)
            # A stream that was made anew numbers from 1 again: then the advisory tells of another message.
            if message is not None and message.published_at <= advisory.timestamp:
                await self._bury(message)
        except msgspec.DecodeError:
            event(log, logging.ERROR, "advisory not understood", stream=self._stream)
        except Exception as error:  # noqa: BLE001 - whatever keeps the message from being kept, it stays
            self._note(error)
            await delivery.hand_back(self._try_again_s)
            return
        await delivery.ack()

    async def _bury(self, message: StoredMessage) -> None:
        await self._handle(message)
        await delete_message(self._connection, self._stream, message.seq)
        event(log, logging.WARNING, "dead end", stream=self._stream, durable=self._durable, seq=message.seq)

    async def _sweep_always(self, stopping: asyncio.Event) -> None:
        while not await wait_for_event(stopping, self._sweep_every_s):
            try:
                await self._sweep()
            except Exception as error:  # noqa: BLE001 - the next sweep finds the same
                self._note(error)

    async def _sweep(self) -> None:
        """Handle what the last sweep found and is still there; remember what is found for the first time.

        Twice, because a cluster needs a moment to remove what was acked.
        """
        settled, found, seq = await self._settled_up_to(), set[int](), 0
        for _ in range(MAX_SWEPT):
            message = await next_message(self._connection, self._stream, self._subject, seq + 1)
            if message is None or message.seq > settled:
                break
            seq = message.seq
            if seq in self._suspects:
                await self._bury(message)
            else:
                found.add(seq)
        self._suspects = found

    async def _settled_up_to(self) -> int:
        """Return up to where nothing is held or still to be handed out: what is there all the same was given up."""
        try:
            info = await self._connection.client.jetstream().consumer_info(self._stream, self._durable)
        except NotFoundError:
            return 0
        except NatsError as error:
            raise BusUnavailable(f"JetStream didn't show the consumer: {type(error).__name__}") from None
        # The floor moves with an acknowledgement alone, not when a message is given up.
        reached = info.ack_floor if info.num_ack_pending else info.delivered
        return reached.stream_seq if reached else 0

    def _note(self, error: Exception) -> None:
        event(log, logging.WARNING, "dead ends not handled yet", stream=self._stream, error=type(error).__name__)
