"""The pool of connections to TimescaleDB, and what its absence looks like."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from announce.observe.health import Health
from announce.observe.logging import event
from announce.runtime.backoff import Backoff
from announce.store.settings import StoreSettings

log = logging.getLogger(__name__)

# In quotes: asyncpg's class takes a parameter in its stubs alone.
DatabaseConnection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"

DEPENDENCY: Final = "timescaledb"
COMMAND_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 5.0
CHECK_INTERVAL_S: Final = 1.0
CHECK_TIMEOUT_S: Final = 5.0

# What Postgres refuses for the value's sake; whatever else it refuses (read-only, a lock not had in time, a table that
# isn't there yet), it may take later.
_REFUSED: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
_AWAY: Final = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)


class DatabaseUnavailable(Exception):  # noqa: N818 - it says what is the case
    """The database can't be asked now. What was under way may have been committed."""


class RowRefused(Exception):  # noqa: N818 - likewise
    """A value isn't one that its column can hold: trying again changes nothing."""


class Database:
    """Hands out connections; outages of every kind come as `DatabaseUnavailable`."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[DatabaseConnection]:
        """Borrow a connection.

        Raises:
            DatabaseUnavailable: there is none, or it broke during the block.
            RowRefused: the block wrote a value that can't be stored.
        """
        try:
            async with self._pool.acquire(timeout=CONNECT_TIMEOUT_S) as connection:
                yield connection
        except _REFUSED as error:
            raise RowRefused(type(error).__name__) from error
        except _AWAY as error:
            if _being_cancelled():
                # The block was cancelled, and then its connection couldn't be given back: the first is what counts.
                raise asyncio.CancelledError from error
            if isinstance(error, ValueError):  # asyncpg's word for a value that a column can't hold
                raise RowRefused(str(error)) from error
            raise DatabaseUnavailable(type(error).__name__) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[DatabaseConnection]:
        """Borrow a connection for one transaction.

        Raises:
            DatabaseUnavailable: as `connection`; then the transaction may have been committed or not.
        """
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def watch(self, health: Health) -> None:
        """Keep a service's readiness in step with the database. Ends by cancellation."""
        while True:
            try:
                async with asyncio.timeout(CHECK_TIMEOUT_S):
                    await self._check()
            except (DatabaseUnavailable, TimeoutError) as error:
                if health.is_up(DEPENDENCY):
                    event(log, logging.WARNING, "database unavailable", error=str(error) or "timeout")
                health.down(DEPENDENCY, str(error) or "no answer in time")
            else:
                health.up(DEPENDENCY)
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def _check(self) -> None:
        async with self.connection() as connection:
            if await connection.fetchval("SHOW transaction_read_only") == "on":
                raise DatabaseUnavailable("read-only")

    async def wait(self) -> None:
        """Wait until the database answers and can be written."""
        backoff = Backoff(cap_s=1.0)
        while True:
            try:
                await self._check()
            except DatabaseUnavailable:
                await asyncio.sleep(backoff.next())
            else:
                return


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@asynccontextmanager
async def database(settings: StoreSettings) -> AsyncIterator[Database]:
    """Open a pool for the length of the block. It connects when it is first used."""
    pool = await asyncpg.create_pool(
        settings.pg_dsn.get_secret_value(),
        min_size=0,
        max_size=settings.pg_pool_size,
        command_timeout=COMMAND_TIMEOUT_S,
        timeout=CONNECT_TIMEOUT_S,
        init=_prepare,
    )
    try:
        yield Database(pool)
    finally:
        with suppress(TimeoutError):
            # close() waits for every borrowed connection, for ever if need be.
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await pool.close()
        pool.terminate()


async def _prepare(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Read and write jsonb as values that `msgspec` takes; binary, since COPY knows no other codec."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + (value if isinstance(value, bytes) else msgspec.json.encode(value)),
        decoder=lambda raw: msgspec.json.decode(raw[1:]),
    )
