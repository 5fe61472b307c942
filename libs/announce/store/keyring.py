"""Companies and their ingest keys. ingestd holds all of them in memory, and hears of every change."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from announce.runtime.backoff import wait_for_event
from announce.store.cipher import SecretCipher
from announce.store.database import Database, DatabaseUnavailable
from announce.store.sql import load

SQL: Final = load("keyring")
CHANNEL: Final = "ba_keyring"


class IngestKey(NamedTuple):
    """A live key: whose it is, and its secret."""

    company_id: str
    secret: bytes


@dataclass(frozen=True, slots=True)
class Keyring:
    """All live keys by id, and each company's own rate of alerts a second where it has one."""

    keys: Mapping[str, IngestKey] = field(default_factory=dict)
    rates: Mapping[str, float | None] = field(default_factory=dict)


async def load_keyring(database: Database, cipher: SecretCipher) -> Keyring:
    """Read everything anew.

    Raises:
        DatabaseUnavailable: the database is away.
        UndecryptableSecret: a key was encrypted with a key that BA_SECRET_KEYS lacks.
    """
    async with database.connection() as connection:
        keys = await connection.fetch(SQL["live_keys"])
        companies = await connection.fetch(SQL["companies"])
    return Keyring(
        keys={
            row["key_id"]: IngestKey(row["company_id"], cipher.decrypt(row["secret_ciphertext"]).encode())
            for row in keys
        },
        rates={row["company_id"]: row["rate_per_s"] for row in companies},
    )


async def keyring_changes(database: Database, every_s: float) -> AsyncGenerator[None, None]:
    """Tell at once, then whenever a company or a key has changed, and at least every so many seconds.

    Each change shows to whoever loads the keyring after being told: it listens from before the first time on.

    Raises:
        DatabaseUnavailable: the database is away, or went away.
    """
    changed = asyncio.Event()

    def on_change(*_: object) -> None:
        changed.set()

    async with database.connection() as connection:
        connection.add_termination_listener(on_change)
        await connection.add_listener(CHANNEL, on_change)
        try:
            while not connection.is_closed():
                changed.clear()
                yield
                await wait_for_event(changed, every_s)
        finally:
            if not connection.is_closed():
                await connection.remove_listener(CHANNEL, on_change)
                connection.remove_termination_listener(on_change)
    raise DatabaseUnavailable("the connection that listened was lost")


async def create_company(database: Database, company_id: str, name: str, rate_per_s: float | None = None) -> None:
    """Create a company; one that exists stays as it is."""
    async with database.connection() as connection:
        await connection.execute(SQL["create_company"], company_id, name, rate_per_s)


async def create_key(
    database: Database, cipher: SecretCipher, company_id: str, key_id: str | None = None, secret: str | None = None
) -> tuple[str, str]:
    """Create an ingest key; return its id and its secret, which nobody can read again."""
    key_id = key_id or f"key_{secrets.token_hex(8)}"
    secret = secret or f"basec_{secrets.token_urlsafe(32)}"
    async with database.connection() as connection:
        await connection.execute(SQL["create_key"], key_id, company_id, cipher.encrypt(secret))
    return key_id, secret


async def revoke_key(database: Database, key_id: str) -> None:
    """End a key: from now on nothing that it signs is taken."""
    async with database.connection() as connection:
        await connection.execute(SQL["revoke_key"], key_id)
