import asyncio
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from announce.store.database import Database, RowRefused, database
from announce.store.migrate import MigrationRefused, Migrator, read_migrations
from announce.store.settings import MigrationSettings, StoreSettings
from announce_stack import postgres
from announce_stack.report import silent
from tests.servers import Postgres

FOLDER = MigrationSettings().migrations_dir


@pytest.fixture
async def empty_dsn(postgres_server: Postgres) -> AsyncIterator[str]:
    name = f"empty_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres_server.dsn())
    await connection.execute(f"CREATE DATABASE {name}")
    yield postgres_server.dsn(name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def empty_store(empty_dsn: str) -> AsyncIterator[Database]:
    async with database(StoreSettings(pg_dsn=empty_dsn)) as opened:
        yield opened


def schema(dsn: str) -> str:
    """Dump the schema, except for the log of migrations and pg_dump's random session token."""
    pg_dump = postgres.find_programs(silent) / "pg_dump"
    dump = [str(pg_dump), "--schema-only", "--schema=public", "--exclude-table=schema_migrations", dsn]
    text = subprocess.run(dump, capture_output=True, text=True, check=True, timeout=30).stdout
    return "\n".join(line for line in text.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))


async def test_down_then_up_gives_the_same_schema(empty_dsn: str, empty_store: Database) -> None:
    migrations = read_migrations(FOLDER)
    migrator = Migrator(empty_store, migrations)
    assert await migrator.up() == migrations
    first = schema(empty_dsn)
    assert "CREATE TABLE public.deliveries_dlq" in first
    assert await migrator.down(0) == migrations[::-1]
    assert "CREATE TABLE" not in schema(empty_dsn)
    await migrator.up()
    assert schema(empty_dsn) == first


async def test_each_step_down_is_the_inverse_of_its_step_up(empty_dsn: str, empty_store: Database) -> None:
    migrations = read_migrations(FOLDER)
    migrator = Migrator(empty_store, migrations)
    before: list[str] = []
    for migration in migrations:
        before.append(schema(empty_dsn))
        await migrator.up(migration.version)
    for migration in migrations[::-1]:
        await migrator.down(migration.version - 1)
        assert schema(empty_dsn) == before[migration.version - 1]


async def test_running_it_twice_or_at_once_applies_each_step_once(empty_store: Database) -> None:
    migrations = read_migrations(FOLDER)
    applied = await asyncio.gather(*(Migrator(empty_store, migrations).up() for _ in range(4)))
    assert sorted(len(steps) for steps in applied) == [0, 0, 0, len(migrations)]
    assert all(done for _, done in await Migrator(empty_store, migrations).status())


async def test_a_changed_applied_migration_is_refused_by_name(empty_store: Database, tmp_path: Path) -> None:
    await Migrator(empty_store, read_migrations(FOLDER)).up()
    copy = tmp_path / "migrations"
    shutil.copytree(FOLDER, copy)
    with (copy / "002_companies.up.sql").open("a") as file:
        file.write("-- changed\n")
    with pytest.raises(MigrationRefused, match=r"002_companies\.up\.sql was changed"):
        await Migrator(empty_store, read_migrations(copy)).up()


async def test_an_applied_migration_without_a_file_is_refused_by_name(empty_store: Database) -> None:
    migrations = read_migrations(FOLDER)
    await Migrator(empty_store, migrations).up()
    with pytest.raises(MigrationRefused, match=rf"{migrations[-1]} is applied"):
        await Migrator(empty_store, migrations[:-1]).up()


async def test_a_failing_step_leaves_nothing_of_itself(empty_store: Database, tmp_path: Path) -> None:
    (tmp_path / "001_broken.up.sql").write_text("CREATE TABLE half (id int); SELECT 1/0;")
    (tmp_path / "001_broken.down.sql").write_text("DROP TABLE half;")
    migrator = Migrator(empty_store, read_migrations(tmp_path))
    with pytest.raises(RowRefused, match="DivisionByZeroError"):
        await migrator.up()
    async with empty_store.connection() as connection:
        assert await connection.fetchval("SELECT to_regclass('half')") is None
    assert [done for _, done in await migrator.status()] == [False]


def test_a_step_without_a_way_down_is_refused(tmp_path: Path) -> None:
    (tmp_path / "001_one_way.up.sql").write_text("SELECT 1;")
    with pytest.raises(MigrationRefused, match=r"001_one_way\.up\.sql"):
        read_migrations(tmp_path)
