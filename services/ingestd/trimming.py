"""Forgetting alerts that are older than the dedupe window."""

import asyncio
from contextlib import suppress
from typing import Final

from announce.store.alerts import forget_alerts
from announce.store.database import Database, DatabaseUnavailable

INTERVAL_S: Final = 60.0
PAUSE_S: Final = 0.05
MAX_ROWS: Final = 1000


async def keep_trimming(database: Database, window_s: float, interval_s: float = INTERVAL_S) -> None:
    """Delete in small portions, now and then. Ends by cancellation."""
    while True:
        trimmed = 0
        with suppress(DatabaseUnavailable):
            trimmed = await forget_alerts(database, window_s, MAX_ROWS)
        await asyncio.sleep(PAUSE_S if trimmed == MAX_ROWS else interval_s)
