"""Deliveries that are put off for long, in a stream of their own, so that they don't count as held by their service.

They could be JetStream's scheduled messages, had these not two faults in nats-server 2.15: a stream that has them can't
refuse what is more than its bounds ("message scheduling cannot use discard new"), it would discard old work; and one
that falls due while the server's storage is full stays where it is until the server is started again. Hence this: a
service puts a delivery into BA_DEFERRED, is handed it there at once, and hands it back until its time; then it moves it
to where it came from. Times are those of the services' clocks.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.publisher import OutgoingMessage, Publisher
from announce.bus.settings import BusSettings
from announce.bus.streams import DEFERRED, deferred_subject, durable_consumer, undeferred_subject
from announce.model.envelope import TRACE_HEADER
from announce.observe.logging import event
from announce.runtime.background import Tasks

log = logging.getLogger(__name__)

DEFERRALS_HEADER: Final = "BA-Deferrals"
DUE_HEADER: Final = "BA-Due"
"""Unix time in milliseconds."""
CAPACITY: Final = 500
TRY_AGAIN_S: Final = 5.0
LONGEST_S: Final = 86400.0
FINISH_S: Final = 2.0
MAX_DIGITS: Final = 15


def deferrals_of(delivery: Delivery) -> int:
    """Return how many times a delivery has been put off."""
    return _number(delivery, DEFERRALS_HEADER) or 0


class Deferral:
    """Puts deliveries off."""

    def __init__(self, connection: Connection) -> None:
        self._publisher = Publisher(connection)

    async def defer(self, delivery: Delivery, delivery_id: UUID, deferrals: int, delay_s: float) -> None:
        """Have a delivery come again on its subject after `delay_s`, with the same payload; then it is to be acked.

        Doing so twice for one message, within JetStream's duplicate window, is the same as once, even when the first
        one has come back meanwhile. What another message of the same delivery had put off goes.

        Args:
            delivery: the message. It isn't settled here.
            delivery_id: the delivery's id.
            deferrals: how many times the delivery will have been put off, this time included.
            delay_s: for how many seconds; at most a day.

        Raises:
            BusUnavailable: JetStream can't take it now, or didn't say so in time: then it may hold it all the same.
        """
        due_ms = int((time.time() + min(max(delay_s, 0.0), LONGEST_S)) * 1000)
        headers = {DEFERRALS_HEADER: str(deferrals), DUE_HEADER: str(due_ms)}
        if trace := delivery.header(TRACE_HEADER):
            headers[TRACE_HEADER] = trace
        # By the message, not by the delivery: a replay of the same delivery is no repetition.
        msg_id = f"defer:{delivery_id}:{delivery.origin.stream_seq}"
        subject = deferred_subject(delivery.subject, delivery_id)
        await self._publisher.publish(OutgoingMessage(subject, delivery.data, msg_id, headers))


class DueDeliveries:
    """Brings back those of a channel whose time has come.

    Args:
        connection: the connection to NATS.
        durable: the service's durable, such as `deliverd-fcm`; it has one of this name on BA_DEFERRED too.
        channel: the channel.
        settings: how the durable is made.
        try_again_s: for how long one waits that BA_DELIVER couldn't take back, mostly because it is full.
    """

    def __init__(
        self,
        connection: Connection,
        durable: str,
        channel: str,
        settings: BusSettings,
        try_again_s: float = TRY_AGAIN_S,
    ) -> None:
        config = durable_consumer(durable, f"ba.deferred.{channel}.*.*", settings)
        self._publisher = Publisher(connection)
        self._consumer = Consumer(connection, DEFERRED, config, CAPACITY, self._take)
        self._tasks = Tasks()
        self._try_again_s = try_again_s

    async def run(self, stopping: asyncio.Event) -> None:
        """Bring back what is due, until `stopping` is set, through every loss of NATS."""
        await self._consumer.run(stopping)
        await self._tasks.finish(FINISH_S)

    async def _take(self, deferred: Delivery) -> None:
        wait_s = _due_in_s(deferred)
        if wait_s > 0:
            await deferred.hand_back(wait_s)
        else:
            self._tasks.start(self._move(deferred))

    async def _move(self, deferred: Delivery) -> None:
        # Its time too: a stream that was made anew numbers from 1 again.
        msg_id = f"due:{deferred.origin.published_at.timestamp()}:{deferred.origin.stream_seq}"
        message = OutgoingMessage(undeferred_subject(deferred.subject), deferred.data, msg_id, _headers(deferred))
        try:
            await self._publisher.publish(message)
        except BusUnavailable as error:
            event(log, logging.WARNING, "deferred delivery not brought back yet", error=str(error))
            await deferred.hand_back(self._try_again_s)
        else:
            await deferred.ack()


def _headers(deferred: Delivery) -> Mapping[str, str]:
    values = {name: deferred.header(name) for name in (TRACE_HEADER, DEFERRALS_HEADER)}
    return {name: value for name, value in values.items() if value is not None}


def _due_in_s(deferred: Delivery) -> float:
    due_ms = _number(deferred, DUE_HEADER)
    return 0.0 if due_ms is None else min(due_ms / 1000 - time.time(), LONGEST_S)


def _number(delivery: Delivery, header: str) -> int | None:
    """Read a header that we wrote; what is no number, or longer than any of ours, was written by somebody else."""
    text = delivery.header(header) or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None
