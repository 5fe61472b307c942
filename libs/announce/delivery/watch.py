"""What a channel looks up about its queue in JetStream, beside its work."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.stored import oldest_waiting, waiting_subjects
from announce.bus.streams import company_of, deliver_subject
from announce.delivery.metrics import OLDEST_SECONDS
from announce.delivery.parking import Parking
from announce.delivery.pause import Pause

OLDEST_EVERY_S: Final = 5.0
OTHERS_EVERY_S: Final = 0.2


async def watch_oldest(connection: Connection, channel: str) -> None:
    """Keep the metric of how long the oldest delivery has been waiting. Ends by cancellation."""
    while True:
        with suppress(BusUnavailable):
            published_at = await oldest_waiting(connection, deliver_subject(channel, "*"))
            age_s = 0.0 if published_at is None else (datetime.now(UTC) - published_at).total_seconds()
            OLDEST_SECONDS.labels(channel).set(max(age_s, 0.0))
        await asyncio.sleep(OLDEST_EVERY_S)


async def watch_others(
    connection: Connection, channel: str, pause: Pause, parking: Parking, found: Callable[[], None]
) -> None:
    """Look for other companies behind those that may be in their way. Ends by cancellation."""
    while True:
        if pause.outage or parking.crowded:
            with suppress(BusUnavailable):
                companies = set(map(company_of, await waiting_subjects(connection, deliver_subject(channel, "*"))))
                pause.waiting(companies)
                parking.waiting(companies)
                found()
        await asyncio.sleep(OTHERS_EVERY_S)
