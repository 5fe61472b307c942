"""scripts/stack from outside: whole stacks of real processes, started, killed and started again."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlsplit

import asyncpg
import nats
import pytest

from announce_stack import layout, ports, state
from announce_stack.process import at_work_in
from announce_stack.readiness import answers
from announce_stack.supervisor import Entry, Supervisor

# A whole stack starts in a few seconds on an idle machine; CI's two cores are seldom idle.
pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True, slots=True)
class StackCommand:
    """scripts/stack for one folder."""

    folder: Path

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("BA_")}
        argv = [*layout.module("announce_stack"), *arguments, "--dir", str(self.folder)]
        return subprocess.run(argv, check=False, capture_output=True, text=True, env=outside | settings)

    def ok(self, *arguments: str, **settings: str) -> str:
        done = self.run(*arguments, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.ok("env").splitlines())

    def running(self) -> dict[str, Entry]:
        return Supervisor(self.folder).running()

    def kill_everything(self) -> None:
        for entry in self.running().values():
            entry.process.send(SIGKILL)
        for entry in self.running().values():
            assert entry.process.wait(10)


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[Callable[[str], StackCommand]]:
    made: list[StackCommand] = []

    def make(name: str) -> StackCommand:
        made.append(StackCommand(tmp_path / name))
        return made[-1]

    yield make
    for stack in made:
        if stack.folder.exists():
            stack.ok("down")
            assert processes_in(stack.folder) == []
            remembered = state.load(stack.folder)
            assert remembered is not None
            assert [port for port in remembered.ports.values() if not ports.is_free(port)] == []


def processes_in(folder: Path) -> list[int]:
    """Servers run in the stack's folder, and Postgres' processes in that of its data."""
    return [process.pid for where in (folder, folder / "postgres") for process in at_work_in(where)]


async def write(environment: dict[str, str], text: str) -> None:
    """A row in Postgres, and a message in JetStream that its producer got an acknowledgement for."""
    connection = await asyncpg.connect(environment["BA_PG_DSN"])
    await connection.execute("CREATE TABLE kept (text text)")
    await connection.execute("INSERT INTO kept VALUES ($1)", text)
    await connection.close()
    client = await nats.connect(environment["BA_NATS_URL"])
    await client.jetstream().publish("ba.outcomes.demo", text.encode())
    await client.close()


async def read(environment: dict[str, str]) -> tuple[str, str]:
    connection = await asyncpg.connect(environment["BA_PG_DSN"])
    row = await connection.fetchval("SELECT text FROM kept")
    await connection.close()
    client = await nats.connect(environment["BA_NATS_URL"])
    message = await client.jetstream().get_last_msg("BA_OUTCOMES", "ba.outcomes.demo")
    await client.close()
    return row, (message.data or b"").decode()


async def test_a_stack_killed_beside_another_comes_back_with_nothing_lost(
    make_stack: Callable[[str], StackCommand],
) -> None:
    one, other = make_stack("one"), make_stack("other")
    for stack in (one, other):
        # As in a shell that has taken over the other stack's `env`.
        shell = one.environment() if one.folder.exists() else {}
        assert "taken from your environment" not in stack.ok("up", "--only", "postgres,nats", **shell)
    before = one.environment()
    assert before["BA_PG_DSN"] != other.environment()["BA_PG_DSN"]
    beside = other.running()
    await write(before, "kept")

    one.kill_everything()
    gone = one.run("env")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "no stack runs in" in gone.stderr

    one.ok("up", "--only", "postgres,nats")
    after = one.environment()
    assert {name for name in before if before[name] != after[name]} <= {"BA_ADMIN_TOKEN"}
    assert await read(after) == ("kept", "kept")
    assert other.running() == beside


def test_up_leaves_alone_what_runs_and_starts_what_does_not(make_stack: Callable[[str], StackCommand]) -> None:
    stack = make_stack("stack")
    stack.ok("up", "--only", "nats,postgres")
    stack.ok("kill", "nats")
    before = stack.running()
    assert before.keys() == {"postgres"}
    stack.ok("up", "--only", "nats,postgres")
    assert stack.running()["postgres"] == before["postgres"]
    assert stack.running().keys() == {"nats", "postgres"}


def test_a_port_that_somebody_took_meanwhile_is_replaced_and_it_says_so(
    make_stack: Callable[[str], StackCommand],
) -> None:
    stack = make_stack("stack")
    stack.ok("up", "--only", "nats")
    stack.ok("kill", "nats")
    remembered = state.load(stack.folder)
    assert remembered is not None
    port = remembered.ports["nats"]
    with socket.create_server(("127.0.0.1", port)):
        refused = stack.run("start", "nats")
        assert refused.returncode == 1
        assert f"port {port} of nats has been taken" in refused.stderr
        assert f"port {port} of nats has been taken" in stack.ok("up", "--only", "nats")
    assert not stack.environment()["BA_NATS_URL"].endswith(f":{port}")


def test_a_whole_stack(make_stack: Callable[[str], StackCommand]) -> None:
    stack = make_stack("stack")
    stack.ok("up", "--fakes", "--replicas", "deliverd_fcm=2", BA_DELIVERD_MAX_ATTEMPTS="3")
    environment = stack.environment()
    urls = [urlsplit(value) for name, value in environment.items() if name.endswith("_METRICS_URL")]
    assert len(urls) == 4
    assert all(url.port and answers(url.port, url.path)() for url in urls)
    assert max_attempts(stack, "deliverd_fcm") == max_attempts(stack, "deliverd_fcm:2") == "3"

    before = stack.running()
    stack.ok("kill", "deliverd_fcm:2", "ingestd", "clickhouse")
    assert before.keys() - stack.running().keys() == {"deliverd_fcm:2", "ingestd", "clickhouse"}
    assert "ingestd                  ended" in stack.ok("status")
    stack.ok("start", "deliverd_fcm", "ingestd", "clickhouse")
    after = stack.running()
    assert after.keys() == before.keys()
    assert {name: entry.ports for name, entry in after.items()} == {name: e.ports for name, e in before.items()}
    assert after["deliverd_fcm"] == before["deliverd_fcm"]
    assert max_attempts(stack, "deliverd_fcm:2") == "3", "start forgets the settings of up"
    assert '"service":"ingestd"' in stack.ok("logs", "ingestd")

    stack.ok("up", "--fakes", "--replicas", "deliverd_fcm=1")
    assert before.keys() - stack.running().keys() == {"deliverd_fcm:2"}


def max_attempts(stack: StackCommand, name: str) -> str | None:
    environment = Path(f"/proc/{stack.running()[name].process.pid}/environ").read_text().split("\0")
    return dict(line.split("=", 1) for line in environment if line).get("BA_DELIVERD_MAX_ATTEMPTS")


def test_commands_on_a_folder_without_a_stack_say_so_and_leave_nothing(tmp_path: Path) -> None:
    stack = StackCommand(tmp_path / "none")
    for command in (("down",), ("status",), ("env",), ("kill", "nats"), ("start", "nats"), ("logs", "nats")):
        done = stack.run(*command)
        assert done.returncode == 1
        assert "scripts/stack: no stack" in done.stderr
    assert not stack.folder.exists()
