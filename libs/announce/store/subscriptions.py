"""Who hears of a company's alerts."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from announce.model.alert import Severity
from announce.store.database import Database
from announce.store.sql import load
from announce.store.targets import lock_subscriptions

SQL: Final = load("subscriptions")


class Subscription(NamedTuple):
    """One address that hears of alerts from `min_severity` up; with tags, only of those that share one."""

    channel: str
    address: str
    min_severity: Severity = Severity.INFO
    tags: Sequence[str] = ()


class Recipient(NamedTuple):
    """A subscription that an alert reaches."""

    subscription_id: int
    channel: str
    address: str


async def save_subscriptions(database: Database, company_id: str, subscriptions: Sequence[Subscription]) -> None:
    """Create subscriptions, or replace those with the same address; all or none. Disabled ones are enabled again.

    Addresses must be distinct within one call. Tags hold no commas.
    """
    async with database.transaction() as connection:
        await lock_subscriptions(connection, [company_id])
        await connection.execute(
            SQL["save_subscriptions"],
            company_id,
            [each.channel for each in subscriptions],
            [each.address for each in subscriptions],
            [each.min_severity.rank for each in subscriptions],
            [",".join(each.tags) for each in subscriptions],
        )


async def matching_subscriptions(
    database: Database, company_id: str, severity: Severity, tags: Sequence[str], after: int, limit: int
) -> list[Recipient]:
    """Return the next recipients of an alert, in order of their ids, from the first one beyond `after`."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            SQL["matching_subscriptions"], company_id, after, severity.rank, list(tags), limit
        )
    return [Recipient(*row) for row in rows]
