"""Remembering how far a fan-out has come."""

import asyncio
from typing import Final

from announce.store.alerts import AcceptedAlert, FanoutProgress, save_fanout_progress
from announce.store.database import Database
from ingestd.patience import insist

INTERVAL_S: Final = 0.25


class Bookmark:
    """Writes progress down now and then, beside the fan-out.

    Each time costs the disk a sync that it could spend on envelopes. What is lost by a crash is published again, and
    JetStream drops it within its duplicate window.
    """

    def __init__(self, database: Database, record: AcceptedAlert) -> None:
        self._database = database
        self._record = record
        self._progress = FanoutProgress()
        self._moved = asyncio.Event()

    def move(self, progress: FanoutProgress) -> None:
        """Note that everything up to here is in JetStream."""
        self._progress = progress
        self._moved.set()

    async def keep(self) -> None:
        """Write down what was noted last. Ends by cancellation."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            await insist("progress", self._save)
            await asyncio.sleep(INTERVAL_S)

    async def _save(self) -> None:
        await save_fanout_progress(self._database, self._record.key, self._record.accepted_at, self._progress)
