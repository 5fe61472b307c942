"""The one place where messages are settled, each once."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from announce.bus.connection import BusUnavailable
from announce.bus.consumer import Delivery
from announce.bus.deferral import Deferral
from announce.bus.publisher import MAX_BATCH, OutgoingMessage, Publisher
from announce.delivery.announcement import announcing_message
from announce.delivery.metrics import SETTLED, Settled
from announce.model.outcome_event import OutcomeEvent
from announce.observe.logging import event
from announce.runtime.background import Tasks
from announce.runtime.backoff import Backoff
from announce.runtime.batcher import Batcher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class End:
    """It is over, and this is announced of it; of a message that is no delivery, nothing is."""

    event: OutcomeEvent | None


@dataclass(frozen=True, slots=True)
class HandBack:
    """JetStream is to deliver it again, after so many seconds."""

    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Deferred:
    """The provider wants so much time before the next try that the delivery goes back to the stream meanwhile."""

    delivery_id: UUID
    deferrals: int
    """Those before this one and this one."""
    delay_s: float


Settlement = End | HandBack | Deferred


class _Ended(NamedTuple):
    delivery: Delivery
    event: OutcomeEvent | None


class Settler:
    """Settles messages. An end is announced before it is acknowledged, so that a crash between the two repeats it."""

    def __init__(self, channel: str, publisher: Publisher, deferral: Deferral) -> None:
        self._channel = channel
        self._publisher = publisher
        self._deferral = deferral
        self._batcher = Batcher(self._announce, max_items=MAX_BATCH)
        self._tasks = Tasks()

    def settle(self, delivery: Delivery, settlement: Settlement) -> None:
        """Settle a message as soon as NATS can be told; one that is settled already stays so."""
        match settlement:
            case End(end):
                self._batcher.submit(_Ended(delivery, end))
            case HandBack(delay_s):
                self._tasks.start(self._hand_back(delivery, delay_s))
            case Deferred():
                self._tasks.start(self._defer(delivery, settlement))

    async def park(self, delivery: Delivery, delay_s: float) -> None:
        """Hand back a message that there is no place for."""
        self._count(Settled.PARK)
        await delivery.hand_back(delay_s)

    async def flush(self, within_s: float) -> None:
        """Wait until NATS has been told of what was handed back or deferred, but for at most so long."""
        await self._tasks.finish(within_s)

    async def _hand_back(self, delivery: Delivery, delay_s: float) -> None:
        if not delivery.settled:
            self._count(Settled.HAND_BACK)
            await delivery.hand_back(delay_s)

    async def _defer(self, delivery: Delivery, deferred: Deferred) -> None:
        backoff, unsure = Backoff(), False
        while not delivery.settled:
            try:
                await self._deferral.defer(delivery, deferred.delivery_id, deferred.deferrals, deferred.delay_s)
            except BusUnavailable as error:
                event(log, logging.WARNING, "delivery not deferred", channel=self._channel, error=str(error))
                unsure = unsure or error.unsure
                if not unsure:
                    # It waits all the same, only that it isn't counted as a deferral.
                    await self._hand_back(delivery, deferred.delay_s)
                    return
                # JetStream may hold it as deferred: handed back too, it would be sent twice.
                await asyncio.sleep(backoff.next())
            else:
                await self._acknowledge(delivery, Settled.DEFER)

    async def _announce(self, ended: Sequence[_Ended]) -> list[None]:
        await self._publish(
            [announcing_message(each.delivery.origin.stream_seq, each.event) for each in ended if each.event]
        )
        for each in ended:
            await self._acknowledge(each.delivery, Settled.ACK)
        return [None] * len(ended)

    async def _publish(self, messages: Sequence[OutgoingMessage]) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._publisher.publish_all(messages)
            except BusUnavailable as error:
                event(log, logging.WARNING, "outcomes wait", channel=self._channel, error=str(error))
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _acknowledge(self, delivery: Delivery, how: Settled) -> None:
        if not delivery.settled:
            self._count(how)
            await delivery.ack()

    def _count(self, how: Settled) -> None:
        SETTLED.labels(self._channel, how).inc()
