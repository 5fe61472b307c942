"""ClickHouse's client. Only this package imports clickhouse_connect."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import clickhouse_connect
from clickhouse_connect.driver.asyncclient import AsyncClient

from announce.archive.settings import ArchiveSettings, endpoint


@asynccontextmanager
async def connected(settings: ArchiveSettings) -> AsyncIterator[AsyncClient]:
    """Open a client of the DSN's database, which need not exist yet: `command(…, use_database=False)` makes it.

    It asks the server for its version and settings at once, so it fails when there is none. Instants are read as aware
    datetimes. An INSERT isn't gathered with others on the server (whose default differs from version to version).

    Raises:
        clickhouse_connect.driver.exceptions.Error: there is no server, or it doesn't take the credentials.
    """
    target = endpoint(settings.clickhouse_dsn)
    client = await clickhouse_connect.get_async_client(
        interface=target.scheme,
        host=target.host,
        port=target.port,
        username=target.user,
        password=target.password.get_secret_value(),
        tz_mode="aware",
        autogenerate_session_id=False,
        settings={"async_insert": 0},
    )
    # Not before it is connected, for it would then ask its first questions there.
    client.database = target.database
    try:
        yield client
    finally:
        await client.close()
