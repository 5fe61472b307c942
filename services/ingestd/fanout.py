"""Fan-out: every delivery of an alert into BA_DELIVER, in constant memory, resumed where it stopped."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from announce.bus.connection import BusUnavailable
from announce.bus.publisher import OutgoingMessage, Publisher, Receipt
from announce.bus.streams import channel_of
from announce.observe.logging import event
from announce.runtime.background import background
from announce.runtime.backoff import Backoff
from announce.store.alerts import FanoutProgress, FinishedFanout, fanout_progress
from announce.store.database import Database
from announce.store.subscriptions import Recipient, matching_subscriptions
from ingestd import metrics
from ingestd.arrival import Arrived
from ingestd.audience import Mailing, named_targets, subscribers
from ingestd.bookmark import Bookmark
from ingestd.patience import insist
from ingestd.register import Register
from ingestd.settings import IngestdSettings

log = logging.getLogger(__name__)

SMALL: Final = 200
"""A fan-out to fewer subscriptions than this is small: it is published at once, in one batch."""


PAGE_BYTES: Final = 2 * 1024 * 1024
ADDITION_BYTES: Final = 500
"""About what an envelope has beside the alert's own words."""


class Crowded(Exception):  # noqa: N818 - it says what is the case
    """Too many large fan-outs wait already."""


class Fanout:
    """Fans alerts out. Small ones go on beside large ones: they have a publisher of their own.

    Args:
        database: where subscriptions and progress are.
        register: writes down that a fan-out has ended.
        small: publishes small fan-outs.
        large: publishes large ones.
        settings: how much at once.
    """

    def __init__(
        self, database: Database, register: Register, small: Publisher, large: Publisher, settings: IngestdSettings
    ) -> None:
        self._database = database
        self._register = register
        self._small = small
        self._large = large
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.large_fanouts)
        self._waiting = 0

    async def run(self, arrived: Arrived, *, resumed: bool) -> None:
        """Put every delivery of an alert into JetStream, however long it takes.

        Args:
            arrived: the alert, which is registered.
            resumed: an earlier run may have come some way.

        Raises:
            Crowded: it is large, and too many such wait; nothing was done.
        """
        record = arrived.record
        progress = FanoutProgress()
        if resumed:
            progress = await insist("progress", lambda: fanout_progress(self._database, *record[:2]))
        if progress.finished:
            return
        if arrived.alert.targets is None:
            deliveries = await self._to_subscribers(arrived, progress)
        else:
            deliveries = await _publish(self._small, Mailing(arrived).to(named_targets(arrived.alert)))
        await self._register.finish(FinishedFanout(record.key, record.accepted_at, deliveries))
        _note_end(arrived, deliveries)

    async def _to_subscribers(self, arrived: Arrived, progress: FanoutProgress) -> int:
        first = await self._page(arrived, progress.after, SMALL)
        if len(first) < SMALL:
            return progress.deliveries + await _publish(self._small, Mailing(arrived).to(subscribers(first)))
        # It is read again when its turn has come: those that wait must not fill the memory.
        del first
        async with self._slot():
            return await self._stream(arrived, progress)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        # Each one that waits holds a message, and small alerts need room too.
        if self._slots.locked() and self._waiting >= self._settings.max_alerts_held // 4:
            raise Crowded
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    async def _stream(self, arrived: Arrived, progress: FanoutProgress) -> int:
        """Read the next page while earlier ones are being published; remember how far they all are."""
        mailing, size = Mailing(arrived), self._page_size(arrived)
        after, deliveries = progress.after, progress.deliveries
        flights: deque[tuple[asyncio.Task[int], FanoutProgress]] = deque()
        bookmark = Bookmark(self._database, arrived.record)
        async with background(bookmark.keep()), asyncio.TaskGroup() as group:
            reading = group.create_task(self._page(arrived, after, size))
            while page := await reading:
                after = page[-1].subscription_id
                reading = group.create_task(self._page(arrived, after, size))
                messages = mailing.to(subscribers(page))
                deliveries += len(messages)
                flight = group.create_task(_publish(self._large, messages))
                flights.append((flight, FanoutProgress(after, deliveries)))
                if len(flights) == self._settings.pages_in_flight:
                    bookmark.move(await _land(flights))
            while flights:
                bookmark.move(await _land(flights))
        return deliveries

    def _page_size(self, arrived: Arrived) -> int:
        """Return how many envelopes of this alert's size may be in the memory at once."""
        return max(1, min(self._settings.page_size, PAGE_BYTES // (len(arrived.record.content) + ADDITION_BYTES)))

    async def _page(self, arrived: Arrived, after: int, limit: int) -> list[Recipient]:
        company_id, alert = arrived.record.key.company_id, arrived.alert
        return await insist(
            "subscriptions",
            lambda: matching_subscriptions(self._database, company_id, alert.severity, alert.tags, after, limit),
        )


async def _land(flights: deque[tuple[asyncio.Task[int], FanoutProgress]]) -> FanoutProgress:
    """Wait for the oldest page; return how far the fan-out has then come."""
    flight, progress = flights.popleft()
    await flight
    return progress


async def _publish(publisher: Publisher, messages: Sequence[OutgoingMessage]) -> int:
    """Publish until JetStream holds every one; return how many there are."""
    backoff = Backoff()
    missing = messages
    while True:
        receipts = await publisher.publish_each(missing)
        _count(missing, receipts)
        missing = [
            message for message, receipt in zip(missing, receipts, strict=True) if not isinstance(receipt, Receipt)
        ]
        if not missing:
            return len(messages)
        event(log, logging.DEBUG, "waiting", what="publish", messages=len(missing))
        await asyncio.sleep(backoff.next())


def _count(messages: Sequence[OutgoingMessage], receipts: Sequence[Receipt | BusUnavailable]) -> None:
    subjects = Counter(
        message.subject
        for message, receipt in zip(messages, receipts, strict=True)
        if isinstance(receipt, Receipt) and not receipt.duplicate
    )
    for subject, count in subjects.items():
        metrics.ENVELOPES.labels(channel_of(subject)).inc(count)


def _note_end(arrived: Arrived, deliveries: int) -> None:
    seconds = (datetime.now(UTC) - arrived.record.accepted_at).total_seconds()
    metrics.FANOUT_SECONDS.observe(seconds)
    company_id, alert_id = arrived.record.key
    # Thousands a second may be small; each line would cost more than it tells.
    level = logging.INFO if deliveries >= SMALL else logging.DEBUG
    event(
        log,
        level,
        "fan-out finished",
        company_id=company_id,
        alert_id=alert_id,
        deliveries=deliveries,
        seconds=round(seconds, 3),
        traceparent=arrived.record.traceparent,
    )
