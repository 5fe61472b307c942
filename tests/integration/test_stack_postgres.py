"""The stack's TimescaleDB: what its role may do, and that it comes back after whatever happened."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from announce_stack import ports, postgres
from announce_stack.account import unprivileged
from announce_stack.failure import StackError
from announce_stack.server import Server
from announce_stack.supervisor import Supervisor
from tests.servers import PASSWORD


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    # As below root's own home: nobody else may enter.
    closed = tmp_path_factory.mktemp("closed")
    closed.chmod(0o700)
    folder = closed / "stack"
    # What an initdb that was broken off has left.
    (folder / "postgres.draft" / "base").mkdir(parents=True)
    supervisor = Supervisor(folder)
    yield supervisor
    supervisor.stop(supervisor.running())


@pytest.fixture(scope="module")
def server(supervisor: Supervisor) -> Server:
    return postgres.server(supervisor.folder, ports.choose([]), PASSWORD)


@pytest.fixture
def dsn(supervisor: Supervisor, server: Server) -> str:
    supervisor.start([server])
    supervisor.wait_ready([server])
    return postgres.dsn(server.ports[0], PASSWORD)


async def fetch(dsn: str, *statements: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


async def test_the_role_makes_hypertables_and_databases_but_is_no_superuser(dsn: str) -> None:
    statements = (
        "CREATE EXTENSION timescaledb",
        "CREATE TABLE measured (at timestamptz NOT NULL)",
        "SELECT create_hypertable('measured', 'at')",
        "CREATE DATABASE copy TEMPLATE template1",
        "SELECT rolsuper FROM pg_roles WHERE rolname = current_user",
    )
    assert await fetch(dsn, *statements) is False


async def test_nobody_enters_with_a_wrong_password_or_as_superuser(dsn: str) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await fetch(dsn.replace(PASSWORD, "wrong"), "SELECT 1")
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await fetch(dsn.replace("//announce:", "//postgres:"), "SELECT 1")


async def test_what_it_acknowledged_is_on_the_disk(dsn: str) -> None:
    assert await fetch(dsn, "SELECT current_setting('fsync') || current_setting('synchronous_commit')") == "onon"


@pytest.fixture
def stranger() -> Iterator[int]:
    """The pid of a process that Postgres could signal, and would take for another Postgres."""
    account = unprivileged()
    sleep = ["sleep", "60"]
    with subprocess.Popen(account.command(sleep) if account else sleep) as process:
        yield process.pid
        process.kill()


async def test_it_comes_back_after_sigkill_though_its_lock_file_names_a_living_process(
    supervisor: Supervisor, server: Server, dsn: str, stranger: int
) -> None:
    await fetch(dsn, "CREATE TABLE kept AS SELECT 1 AS value", "SELECT 1")
    supervisor.kill([postgres.NAME])
    lock_file = supervisor.folder / "postgres" / "postmaster.pid"
    lines = lock_file.read_text().splitlines(keepends=True)
    lock_file.write_text("".join([f"{stranger}\n", *lines[1:]]))
    supervisor.start([server])
    supervisor.wait_ready([server])
    assert await fetch(dsn, "SELECT value FROM kept") == 1


def test_the_one_chosen_by_the_environment_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_PG_BIN", str(tmp_path))
    with pytest.raises(StackError, match="BA_PG_BIN: there is no program `postgres`"):
        postgres.server(tmp_path, 1, PASSWORD)
