"""Asking the table of alerts within the dedupe window, without ever waiting for a database that is away."""

import asyncio
from collections.abc import Sequence
from typing import Final

from announce.observe.health import Health
from announce.runtime.batcher import Batcher
from announce.store.alerts import AlertKey, known_hashes
from announce.store.database import DEPENDENCY as DATABASE
from announce.store.database import Database, DatabaseUnavailable

MAX_KEYS: Final = 500
QUIET_S: Final = 1.0


class CannotTell(Exception):  # noqa: N818 - it says what is the case
    """The database can't be asked now, or doesn't answer in time."""


class DedupeLookup:
    """Looks alerts up in batches; after a look-up that failed or took too long it keeps quiet for a second.

    Args:
        database: where the table is.
        health: whether the database is up.
        window_s: the dedupe window.
        timeout_s: how long an answer is worth waiting for.
    """

    def __init__(self, database: Database, health: Health, window_s: float, timeout_s: float) -> None:
        self._database = database
        self._health = health
        self._window_s = window_s
        self._timeout_s = timeout_s
        self._quiet_until = 0.0
        self._batcher = Batcher(self._look_up, max_items=MAX_KEYS, max_running=2)

    async def content_hash(self, key: AlertKey) -> bytes | None:
        """Return the content hash of the alert that came with this id within the window, or None if none did.

        Raises:
            CannotTell: at once, or after the timeout.
        """
        loop = asyncio.get_running_loop()
        if not self._health.is_up(DATABASE) or loop.time() < self._quiet_until:
            raise CannotTell
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._batcher.submit(key)
        except (TimeoutError, DatabaseUnavailable):
            self._quiet_until = loop.time() + QUIET_S
            raise CannotTell from None

    async def _look_up(self, keys: Sequence[AlertKey]) -> list[bytes | None]:
        known = await known_hashes(self._database, keys, self._window_s)
        return [known.get(key) for key in keys]
