"""Accepted = sent + failed + expired, as the database tells it."""

from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from announce.store.database import Database

QUERY: Final = Path(__file__).with_name("books.sql").read_text()


class Books(NamedTuple):
    """How many deliveries were accepted, and how many outcomes of each kind there are."""

    accepted: int
    sent: int
    failed: int
    expired: int
    accounted_for: int
    """Accepted deliveries that have an outcome."""


async def books(store: Database, accepted: Collection[UUID]) -> Books:
    async with store.connection() as connection:
        row = await connection.fetchrow(QUERY, list(accepted))
    assert row is not None
    return Books(*row)


async def balanced(store: Database, accepted: Collection[UUID]) -> Books:
    """Print the query and what it gives, and check that each accepted delivery has exactly one outcome."""
    found = await books(store, accepted)
    print(f"{QUERY}-- {found}")
    assert found.accepted == found.sent + found.failed + found.expired == found.accounted_for
    return found
