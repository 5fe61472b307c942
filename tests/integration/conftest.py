"""Real servers for the tests: one TimescaleDB for the session with a fresh database a test, one NATS a test."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from nats.js.client import JetStreamContext

from announce.bus.connection import Connection, connection
from announce.bus.settings import StreamSettings
from announce.bus.setup import create_streams
from announce.store.database import Database, database
from announce.store.migrate import Migrator, read_migrations
from announce.store.settings import MigrationSettings, StoreSettings
from announce_fakes.telegram import FakeTelegram
from announce_stack import nats, ports
from announce_stack.supervisor import Supervisor
from tests.ingest import Producer, create_producer, ingesting, settings
from tests.integration.rig import Rig
from tests.programs import Program
from tests.servers import Nats, Postgres

TEMPLATE = "migrated"


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _migrate(dsn: str) -> None:
    async with database(StoreSettings(pg_dsn=dsn)) as opened:
        await Migrator(opened, read_migrations(MigrationSettings().migrations_dir)).up()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    folder = tmp_path_factory.mktemp("postgres")
    supervisor = Supervisor(folder)
    server = Postgres(folder, supervisor, ports.choose([]))
    server.start()
    try:
        asyncio.run(_execute(server.dsn(), f"CREATE DATABASE {TEMPLATE}"))
        asyncio.run(_migrate(server.dsn(TEMPLATE)))
        yield server
    finally:
        supervisor.stop(supervisor.running())


@pytest.fixture
async def dsn(postgres_server: Postgres) -> str:
    """A migrated database of this test's own; it goes with the session's server."""
    name = f"test_{uuid.uuid4().hex}"
    await _execute(postgres_server.dsn(), f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    return postgres_server.dsn(name)


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[Database]:
    async with database(StoreSettings(pg_dsn=dsn)) as opened:
        yield opened


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[Nats]:
    """A nats-server with our streams."""
    supervisor = Supervisor(tmp_path)
    port = ports.choose([])
    server = Nats(tmp_path, supervisor, port, ports.choose([port]), nats.fresh_passwords())
    server.start()
    try:
        async with connection(server.url()) as admin:
            await create_streams((await admin.connected()).jetstream(), StreamSettings())
        yield server
    finally:
        supervisor.stop(supervisor.running())


@pytest.fixture
async def bus(nats_server: Nats) -> AsyncIterator[Connection]:
    """As Telegram's service connects."""
    async with connection(nats_server.url("deliverd_telegram")) as opened:
        await opened.connected()
        yield opened


@pytest.fixture
async def jetstream(nats_server: Nats) -> AsyncIterator[JetStreamContext]:
    """As its admin sees it."""
    async with connection(nats_server.url()) as opened:
        yield (await opened.connected()).jetstream()


@pytest.fixture
async def ingest(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> AsyncIterator[tuple[Program, Producer]]:
    await create_producer(store)
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (program, producer):
        yield program, producer


@pytest.fixture
def producer(ingest: tuple[Program, Producer]) -> Producer:
    return ingest[1]


@pytest.fixture
def program(ingest: tuple[Program, Producer]) -> Program:
    return ingest[0]


@pytest.fixture
async def rig(nats_server: Nats, store: Database, dsn: str, tmp_path: Path) -> AsyncIterator[Rig]:
    async with FakeTelegram() as provider:
        settings = {
            "BA_NATS_URL": nats_server.url("deliverd_telegram"),
            "BA_NATS_ACK_WAIT_S": "2",
            "BA_PG_DSN": dsn,
            "BA_TELEGRAM_BOT_TOKEN": provider.token,
            "BA_TELEGRAM_BASE_URL": provider.url,
            "BA_DELIVERD_RETRY_BASE_MS": "10",
        }
        yield Rig(nats_server, store, provider, settings, tmp_path)
