"""What the database says of the alerts that were sent."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from importlib.resources import files

from announce.store.database import Database, DatabaseConnection
from announce_stack.demo.sending import Delivery, End, Status

FANNED_OUT, ENDED = (
    files("announce_stack.demo").joinpath(f"sql/{name}.sql").read_text("utf-8") for name in ("fanned_out", "ended")
)
POLL_S = 0.02
INGEST = "ingest"


class History:
    """What became of one company's alerts."""

    def __init__(self, database: Database, company: str) -> None:
        self._database = database
        self._company = company

    async def deliveries(self, alert_ids: Collection[str]) -> list[Delivery]:
        """The deliveries of these alerts that have ended.

        Raises:
            DatabaseUnavailable: the database is away.
        """
        async with self._database.connection() as connection:
            return await self._ended(connection, alert_ids)

    async def wait(self, alert_ids: Collection[str], timeout_s: float) -> bool:
        """Looks again and again until each of these alerts has come to its end; False when one did not in time.

        Raises:
            DatabaseUnavailable: the database is away.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while await self._under_way(alert_ids):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def _under_way(self, alert_ids: Collection[str]) -> frozenset[str]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(FANNED_OUT, self._company, list(alert_ids))
            deliveries = await self._ended(connection, alert_ids)
        return unfinished(alert_ids, {row["alert_id"]: row["deliveries"] for row in rows}, deliveries)

    async def _ended(self, connection: DatabaseConnection, alert_ids: Collection[str]) -> list[Delivery]:
        rows = await connection.fetch(ENDED, self._company, list(alert_ids))
        return [
            Delivery(
                row["alert_id"],
                str(row["delivery_id"]) if row["delivery_id"] else None,
                End(row["channel"], row["target"], Status(row["status"]), row["attempts"], row["reason"] or ""),
            )
            for row in rows
        ]


def unfinished(
    alert_ids: Collection[str], fanned_out: Mapping[str, int], ended: Collection[Delivery]
) -> frozenset[str]:
    """The alerts that may still come to something.

    An alert has ended when ingest has refused it, or when it is fanned out and all its deliveries have ended.

    Args:
        alert_ids: the alerts in question.
        fanned_out: the number of deliveries of those whose fan-out has ended.
        ended: the deliveries that have ended.
    """
    refused = {delivery.alert_id for delivery in ended if delivery.end.channel == INGEST}
    ends = Counter(delivery.alert_id for delivery in ended)
    complete = {alert_id for alert_id, deliveries in fanned_out.items() if ends[alert_id] >= deliveries}
    return frozenset(alert_ids) - refused - complete
