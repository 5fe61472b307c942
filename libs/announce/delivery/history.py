"""What was done for a delivery before it came back."""

import asyncio
from collections.abc import Sequence
from typing import Final

from announce.model.envelope import Envelope
from announce.runtime.backoff import Backoff
from announce.runtime.batcher import Batcher
from announce.store.database import Database, DatabaseUnavailable
from announce.store.deliveries import History, histories

MAX_LOOKUPS: Final = 500


class HistoryLookup:
    """Looks up what was done for redelivered messages, many with one query."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = Batcher(self._find, max_items=MAX_LOOKUPS)

    def find(self, envelope: Envelope) -> asyncio.Future[History]:
        """Return what was done; waits for as long as the database is away."""
        return self._batcher.submit(envelope)

    async def _find(self, envelopes: Sequence[Envelope]) -> Sequence[History]:
        backoff = Backoff()
        while True:
            try:
                return await histories(self._database, envelopes)
            except DatabaseUnavailable:
                await asyncio.sleep(backoff.next())
