"""How long the oldest delivery of a channel has been waiting."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.stored import oldest_waiting
from announce.bus.streams import deliver_subject
from announce.delivery.metrics import OLDEST_SECONDS

LOOK_EVERY_S: Final = 5.0


async def watch_oldest(connection: Connection, channel: str) -> None:
    """Keep the metric. Ends by cancellation."""
    while True:
        with suppress(BusUnavailable):
            published_at = await oldest_waiting(connection, deliver_subject(channel, "*"))
            age_s = 0.0 if published_at is None else (datetime.now(UTC) - published_at).total_seconds()
            OLDEST_SECONDS.labels(channel).set(max(age_s, 0.0))
        await asyncio.sleep(LOOK_EVERY_S)
