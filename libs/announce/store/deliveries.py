"""Attempt rows and dead letters: what happened to each delivery, and with it what is known of its target."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from asyncpg import Record

from announce.model.envelope import Envelope
from announce.model.outcome_event import Ending
from announce.model.reason import Reason
from announce.store.database import Database, DatabaseConnection, RowRefused
from announce.store.sql import load
from announce.store.targets import GoneTarget, MovedTarget, mark_targets

SQL: Final = load("deliveries")

CLOCK_SKEW: Final = timedelta(hours=1)
"""How far the clocks of NATS and of the workers may be apart: envelopes have the time of one, rows of the other."""

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""No row is older than this, whatever an envelope says."""

OUR_FAULT: Final = (Reason.CREDENTIALS, Reason.MISCONFIGURED)
"""Why an attempt fails whatever the message and its target: no delivery pays for it with a try."""


class AttemptRow(NamedTuple):
    """One row of `deliveries`; the fields are its columns, in their order."""

    id: UUID
    created_at: datetime
    company_id: str
    alert_id: str
    delivery_id: UUID
    channel: str
    target: str
    attempts: int
    """The ordinal of this attempt; 0 where none was made."""
    status: Ending
    reason: Reason | None
    status_code: int | None
    last_error: str | None
    latency_ms: float | None
    provider_message_id: str | None
    replay_of: UUID | None


class DeadLetterRow(NamedTuple):
    """One new row of `deliveries_dlq`; the fields are the columns that it starts with."""

    id: UUID
    created_at: datetime
    company_id: str
    alert_id: str | None
    delivery_id: UUID | None
    channel: str
    target: str | None
    original_subject: str
    payload: bytes
    """JSON that Postgres can hold; see `announce.model.payload`."""
    attempts: int
    reason: Reason
    status_code: int | None
    last_error: str
    first_attempt_at: datetime


class DeliveryRecord(NamedTuple):
    """What is written of one delivery, in one transaction."""

    attempts: Sequence[AttemptRow] = ()
    dead_letter: DeadLetterRow | None = None
    gone: GoneTarget | None = None
    moved: MovedTarget | None = None


async def record_deliveries(database: Database, records: Sequence[DeliveryRecord], *, again: bool) -> None:
    """Write the records of many deliveries in one transaction.

    Args:
        database: where to.
        records: what to write.
        again: an earlier try to write them may have been committed.

    Raises:
        DatabaseUnavailable: they may or may not have been written; try again with `again`.
        RowRefused: one of them can't be stored; none was.
    """
    # Rows in one order, and then everything else in one order: so no two who write the same can wait for each other.
    attempts = sorted((row for record in records for row in record.attempts), key=_place)
    letters = sorted((record.dead_letter for record in records if record.dead_letter is not None), key=_place)
    gone = [record.gone for record in records if record.gone is not None]
    moved = [record.moved for record in records if record.moved is not None]
    async with database.transaction() as connection:
        write = _merge if again else _copy
        try:
            if attempts:
                await write(connection, "deliveries", "attempts", AttemptRow._fields, attempts)
            if letters:
                await write(connection, "deliveries_dlq", "dead_letters", DeadLetterRow._fields, letters)
            await mark_targets(connection, moved, gone)
        except (OverflowError, TypeError) as error:  # from asyncpg's encoders
            raise RowRefused(str(error)) from error


def _place(row: AttemptRow | DeadLetterRow) -> UUID:
    return row.id


async def _copy(
    connection: DatabaseConnection, table: str, _: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    await connection.copy_records_to_table(table, columns=columns, records=rows)


async def _merge(
    connection: DatabaseConnection, _: str, kind: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    await connection.execute(SQL[f"stage_{kind}"])
    await connection.copy_records_to_table(f"staged_{kind}", columns=columns, records=rows)
    await connection.execute(SQL[f"merge_{kind}"])


class Ended(NamedTuple):
    """How a delivery ended: the row that says so."""

    status: Ending
    target: str
    attempts: int
    reason: Reason | None
    status_code: int | None
    created_at: datetime


class History(NamedTuple):
    """What had been done for a delivery before JetStream handed it out again."""

    attempts: int = 0
    """The highest ordinal of an attempt."""
    tries: int = 0
    """The attempts that count against the retry policy: those that failed by a fault of our own set-up don't."""
    ended: Ended | None = None
    """How it was sent, found expired, or given to the dead-letter queue."""
    first_at: datetime | None = None
    """When the first attempt was made."""


async def histories(database: Database, envelopes: Sequence[Envelope]) -> list[History]:
    """Look up what has been done for each of these deliveries."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            SQL["histories"],
            [each.delivery_id for each in envelopes],
            [each.replay_of for each in envelopes],
            [each.company_id for each in envelopes],
            [each.alert_id for each in envelopes],
            max(min(each.created_at for each in envelopes), EARLIEST) - CLOCK_SKEW,
            OUR_FAULT,
        )
    return [History(row["made"], row["tries"], _ended(row), row["first_at"]) for row in rows]


def _ended(row: Record) -> Ended | None:
    if row["status"] is None:
        return None
    reason = None if row["reason"] is None else Reason(row["reason"])
    return Ended(row["status"], row["target"], row["attempts"], reason, row["status_code"], row["created_at"])
