"""Writing down what happened, and settling messages once it is written."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from announce.bus.consumer import Delivery
from announce.delivery.metrics import SETTLED, UNRECORDED
from announce.observe.logging import event
from announce.runtime.backoff import Backoff
from announce.runtime.batcher import Batcher
from announce.store.database import Database, DatabaseUnavailable, RowRefused
from announce.store.deliveries import DeliveryRecord, record_deliveries

log = logging.getLogger(__name__)

MAX_RECORDS: Final = 2000
REFUSED_DELAY_S: Final = 60.0


class Entry(NamedTuple):
    """A record, and the message that it ends, if it ends one."""

    record: DeliveryRecord
    ends: Delivery | None


class Recorder:
    """Writes records in group commits, in order, and acknowledges each message only after its rows are committed.

    While the database is away it holds on to what it has; the consumer's capacity bounds how much that can be.
    """

    def __init__(self, channel: str, database: Database) -> None:
        self._channel = channel
        self._database = database
        self._batcher = Batcher(self._commit, max_items=MAX_RECORDS)

    def record(self, record: DeliveryRecord, ends: Delivery | None = None) -> asyncio.Future[None]:
        """Hand in a record; the future ends when it is committed and its message is settled."""
        return self._batcher.submit(Entry(record, ends))

    async def _commit(self, entries: Sequence[Entry]) -> list[None]:
        try:
            await self._write([entry.record for entry in entries])
        except RowRefused:
            # One row that can't be stored, or that is stored already, must not hold up the others.
            await asyncio.gather(*map(self._commit_alone, entries))
        else:
            await self._acknowledge(entries)
        return [None] * len(entries)

    async def _commit_alone(self, entry: Entry) -> None:
        try:
            await self._write([entry.record], again=True)
        except RowRefused as error:
            UNRECORDED.labels(self._channel).inc()
            event(log, logging.ERROR, "record refused", channel=self._channel, error=str(error))
            if entry.ends is not None:
                SETTLED.labels(self._channel, "hand_back").inc()
                await entry.ends.hand_back(REFUSED_DELAY_S)
        else:
            await self._acknowledge([entry])

    async def _write(self, records: Sequence[DeliveryRecord], *, again: bool = False) -> None:
        backoff = Backoff()
        while True:
            try:
                return await record_deliveries(self._database, records, again=again)
            except DatabaseUnavailable as error:
                again = True
                event(log, logging.WARNING, "rows wait for the database", rows=len(records), error=str(error))
                await asyncio.sleep(backoff.next())

    async def _acknowledge(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.ends is not None:
                SETTLED.labels(self._channel, "ack").inc()
                await entry.ends.ack()
