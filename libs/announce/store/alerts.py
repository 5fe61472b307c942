"""Alerts, which of them came twice, and how far each one's fan-out has come."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from announce.model.alert import Severity
from announce.store.database import Database
from announce.store.sql import load

SQL: Final = load("alerts")


class AlertKey(NamedTuple):
    """What names an alert for its producer."""

    company_id: str
    alert_id: str


class AcceptedAlert(NamedTuple):
    """An alert that JetStream holds as message `stream_seq` of BA_ALERTS since `accepted_at`."""

    key: AlertKey
    accepted_at: datetime
    stream_seq: int
    content_hash: bytes
    severity: Severity
    title: str
    expires_at: datetime | None
    content: bytes
    """As JSON."""
    traceparent: str


class Arrival(Enum):
    """What an arriving message is to what has been known before."""

    FIRST = "first"
    """New, or the first one's own redelivery."""
    DUPLICATE = "duplicate"
    """The same content came before."""
    CONFLICT = "conflict"
    """Other content came before under the same id."""


class FanoutProgress(NamedTuple):
    """How far an alert's fan-out has come: the last subscription served, the number of deliveries, the end."""

    after: int = 0
    deliveries: int = 0
    finished: bool = False


async def register_alerts(database: Database, alerts: Sequence[AcceptedAlert], window_s: float) -> list[Arrival]:
    """Write down the alerts that are new, and tell of each one what it is. All or none are registered."""
    # The first of several with one key is the one that counts; a statement can't touch a row twice either.
    oldest: dict[AlertKey, AcceptedAlert] = {}
    for alert in alerts:
        oldest.setdefault(alert.key, alert)
    # In one order everywhere, so that two ingestd that register the same alerts wait for each other in turn.
    keys = sorted(oldest)
    async with database.transaction() as connection:
        await connection.execute(
            SQL["remember_alerts"],
            [key.company_id for key in keys],
            [key.alert_id for key in keys],
            [oldest[key].content_hash for key in keys],
            [oldest[key].stream_seq for key in keys],
            [oldest[key].accepted_at for key in keys],
            window_s,
        )
        rows = await connection.fetch(
            SQL["known_alerts"], [key.company_id for key in keys], [key.alert_id for key in keys], window_s
        )
        known = {AlertKey(row["company_id"], row["alert_id"]): (row["stream_seq"], row["content_hash"]) for row in rows}
        arrivals = [_arrival(alert, known.get(alert.key)) for alert in alerts]
        new = [alert for alert, arrival in zip(alerts, arrivals, strict=True) if arrival is Arrival.FIRST]
        await connection.execute(
            SQL["insert_alerts"],
            [alert.key.company_id for alert in new],
            [alert.key.alert_id for alert in new],
            [alert.accepted_at for alert in new],
            [alert.severity for alert in new],
            [alert.title for alert in new],
            [alert.expires_at for alert in new],
            [alert.content for alert in new],
            [alert.traceparent for alert in new],
        )
    return arrivals


def _arrival(alert: AcceptedAlert, known: tuple[int, bytes] | None) -> Arrival:
    # Not known any more: it waited in the stream for longer than the window, so nothing can say that it came before.
    if known is None or known[0] == alert.stream_seq:
        return Arrival.FIRST
    return Arrival.DUPLICATE if known[1] == alert.content_hash else Arrival.CONFLICT


async def known_hashes(database: Database, keys: Sequence[AlertKey], window_s: float) -> Mapping[AlertKey, bytes]:
    """Return the content hashes of those alerts that came within the window."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            SQL["known_alerts"], [key.company_id for key in keys], [key.alert_id for key in keys], window_s
        )
    return {AlertKey(row["company_id"], row["alert_id"]): row["content_hash"] for row in rows}


async def forget_alerts(database: Database, window_s: float, limit: int) -> int:
    """Delete up to `limit` remembered alerts that are older than the window; return how many there were."""
    async with database.connection() as connection:
        status = await connection.execute(SQL["forget_alerts"], window_s, limit)
    return int(status.rpartition(" ")[2])


async def fanout_progress(database: Database, key: AlertKey, accepted_at: datetime) -> FanoutProgress:
    """Return how far this alert's fan-out has come."""
    async with database.connection() as connection:
        row = await connection.fetchrow(SQL["fanout_progress"], key.company_id, key.alert_id, accepted_at)
    return FanoutProgress(*row) if row else FanoutProgress()


async def save_fanout_progress(
    database: Database, key: AlertKey, accepted_at: datetime, progress: FanoutProgress
) -> None:
    """Remember how far this alert's fan-out has come."""
    async with database.connection() as connection:
        await connection.execute(
            SQL["save_fanout_progress"], key.company_id, key.alert_id, accepted_at, progress.after, progress.deliveries
        )


class FinishedFanout(NamedTuple):
    """An alert all of whose deliveries are in BA_DELIVER."""

    key: AlertKey
    accepted_at: datetime
    deliveries: int


async def finish_fanouts(database: Database, finished: Sequence[FinishedFanout]) -> None:
    """Mark fan-outs as finished."""
    async with database.connection() as connection:
        await connection.execute(
            SQL["finish_fanouts"],
            [each.key.company_id for each in finished],
            [each.key.alert_id for each in finished],
            [each.accepted_at for each in finished],
            [each.deliveries for each in finished],
        )
