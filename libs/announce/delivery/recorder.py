"""Writing down what happened, and settling messages once it is written."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from announce.bus.consumer import Delivery
from announce.delivery.letter import raw_letter
from announce.delivery.metrics import UNRECORDED
from announce.delivery.settlement import End, HandBack, Settlement, Settler
from announce.model.reason import Reason
from announce.observe.logging import event
from announce.runtime.backoff import Backoff
from announce.runtime.batcher import Batcher
from announce.store.database import Database, DatabaseUnavailable, RowRefused
from announce.store.deliveries import DeliveryRecord, record_deliveries

log = logging.getLogger(__name__)

MAX_RECORDS: Final = 2000
REFUSED_DELAY_S: Final = 60.0


class Entry(NamedTuple):
    """A record, and the message that is settled when it is committed, if one is."""

    record: DeliveryRecord
    delivery: Delivery | None = None
    settlement: Settlement = End(None)


class Recorder:
    """Writes records in group commits, in order, and settles each message only after its rows are committed.

    While the database is away it holds on to what it has; the consumer's capacity bounds how much that can be.
    """

    def __init__(self, channel: str, database: Database, settler: Settler) -> None:
        self._channel = channel
        self._database = database
        self._settler = settler
        self._batcher = Batcher(self._commit, max_items=MAX_RECORDS)

    def record(self, record: DeliveryRecord) -> asyncio.Future[None]:
        """Hand in a record of a delivery that goes on; the future ends when it is committed."""
        return self._batcher.submit(Entry(record))

    def settle(self, delivery: Delivery, record: DeliveryRecord, settlement: Settlement) -> asyncio.Future[None]:
        """Hand in a record, and settle its message when it is committed."""
        return self._batcher.submit(Entry(record, delivery, settlement))

    async def _commit(self, entries: Sequence[Entry]) -> list[None]:
        try:
            await self._write([entry.record for entry in entries])
        except RowRefused:
            # One row that can't be stored, or that is stored already, must not hold up the others.
            await asyncio.gather(*map(self._commit_alone, entries))
        else:
            self._committed(entries)
        return [None] * len(entries)

    async def _commit_alone(self, entry: Entry) -> None:
        try:
            await self._write([entry.record], again=True)
        except RowRefused as error:
            UNRECORDED.labels(self._channel).inc()
            event(log, logging.ERROR, "record refused", channel=self._channel, error=str(error))
            if entry.delivery is not None:
                await self._keep_unread(entry.delivery, str(error))
        else:
            self._committed([entry])

    async def _keep_unread(self, delivery: Delivery, problem: str) -> None:
        """Keep a message byte for byte whose rows the database can't hold: it would come back for ever."""
        settlement: Settlement = End(None)
        letter = raw_letter(delivery.source, Reason.UNSTORABLE, problem)
        try:
            await self._write([DeliveryRecord(dead_letter=letter)], again=True)
        except RowRefused:
            settlement = HandBack(REFUSED_DELAY_S)
        self._committed([Entry(DeliveryRecord(), delivery, settlement)])

    async def _write(self, records: Sequence[DeliveryRecord], *, again: bool = False) -> None:
        backoff = Backoff()
        while True:
            try:
                return await record_deliveries(self._database, records, again=again)
            except DatabaseUnavailable as error:
                again = True
                event(log, logging.WARNING, "rows wait for the database", rows=len(records), error=str(error))
                await asyncio.sleep(backoff.next())

    def _committed(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.delivery is not None:
                self._settler.settle(entry.delivery, entry.settlement)
