"""What providers said of targets: that they are gone for good, or that they have become others."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from announce.model.reason import Reason
from announce.store.database import Database, DatabaseConnection
from announce.store.sql import load

SQL: Final = load("targets")


class GoneTarget(NamedTuple):
    """A target that nothing will reach again, as an attempt that began at `attempted_at` showed."""

    company_id: str
    channel: str
    address: str
    reason: Reason
    attempted_at: datetime


class MovedTarget(NamedTuple):
    """A target that has become another one, as an attempt that began at `attempted_at` showed.

    A thread is a target of its own: `<chat>/<thread>` moves to `<new chat>/<thread>`.
    """

    company_id: str
    channel: str
    address: str
    new_address: str
    attempted_at: datetime


async def lock_subscriptions(connection: DatabaseConnection, companies: Iterable[str]) -> None:
    """Keep everybody else from changing subscriptions of these companies, until the transaction ends."""
    await connection.execute(SQL["lock_companies"], list(companies))


async def mark_targets(
    connection: DatabaseConnection, moved: Sequence[MovedTarget], gone: Sequence[GoneTarget]
) -> None:
    """Bring subscriptions in step with what providers said; saying it twice changes nothing.

    A subscription that was saved after the attempt began stays as it is. One whose target moved gets the new address,
    or is disabled where its company has a subscription for that one already.
    """
    if not moved and not gone:
        return
    companies = {each.company_id for each in moved} | {each.company_id for each in gone}
    await lock_subscriptions(connection, companies)
    if moved:
        await connection.execute(SQL["move_subscriptions"], *_columns(moved), Reason.TARGET_MOVED)
    if gone:
        # After the moves: a target may be found gone where it went.
        await connection.execute(SQL["disable_subscriptions"], *_columns(gone))
    if moved:
        _, *steps = _columns(moved)
        await connection.execute(SQL["remember_moves"], *steps)


def _columns(rows: Sequence[tuple[str | datetime, ...]]) -> list[list[str | datetime]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def moved_targets(database: Database, channel: str) -> Mapping[str, str]:
    """Return each address of a channel whose target has moved, with the address where it is now."""
    async with database.connection() as connection:
        rows = await connection.fetch(SQL["moved_targets"], channel)
    return _destinations((row["address"], row["new_address"]) for row in rows)


def _destinations(steps: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Follow steps, given in order of time, to where they end."""
    following: dict[str, str] = {}
    for address, new_address in steps:
        if _end(following, new_address) == address:
            # It came back to where it had been: what led away from there is over.
            following.pop(new_address)
        following[address] = new_address
    return {address: _end(following, address) for address in following}


def _end(following: Mapping[str, str], address: str) -> str:
    while address in following:
        address = following[address]
    return address
