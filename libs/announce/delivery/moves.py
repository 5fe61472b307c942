"""Targets that have become others."""

import asyncio
from collections.abc import Mapping

from announce.runtime.backoff import Backoff
from announce.store.database import Database, DatabaseUnavailable
from announce.store.targets import moved_targets


class Moves:
    """Knows where an address leads, as this process has been told, or the database had been before it started."""

    def __init__(self) -> None:
        self._leads_to: dict[str, str] = {}

    def of(self, address: str) -> str | None:
        """Return where an address leads, None if it stands for itself."""
        return self._leads_to.get(address)

    def learn(self, address: str, new_address: str) -> None:
        """Hear that an address leads to another one; what led to it leads there too."""
        self._leads_to.pop(new_address, None)
        for earlier, leads_to in self._leads_to.items():
            if leads_to == address:
                self._leads_to[earlier] = new_address
        self._leads_to[address] = new_address

    async def load(self, database: Database, channel: str) -> None:
        """Learn what the database knows, as soon as it can be asked."""
        backoff = Backoff()
        while True:
            try:
                self._add(await moved_targets(database, channel))
            except DatabaseUnavailable:
                await asyncio.sleep(backoff.next())
            else:
                return

    def _add(self, known: Mapping[str, str]) -> None:
        # What this process was told meanwhile is newer.
        self._leads_to = {**known, **self._leads_to}
