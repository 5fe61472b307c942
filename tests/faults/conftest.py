"""Whole stacks, and single services with everything around them, for tests that break them."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from announce.store.database import Database
from tests.faults.rig import Rig, Servers, both_channels, rig
from tests.integration.conftest import dsn, nats_server, postgres_server, store
from tests.servers import Nats, Postgres

__all__ = ["dsn", "nats_server", "postgres_server", "store"]  # fixtures

COMMAND = (sys.executable, "-m", "announce_stack")
UP_WITHIN_S = 90


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack that was brought up, steered as an operator steers it."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> str:
        """Run a subcommand of scripts/stack; return what it prints."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BA_")}
        done = subprocess.run(
            [*COMMAND, arguments[0], "--dir", str(self.folder), *arguments[1:]],
            env=environment | dict(self.settings),
            capture_output=True,
            text=True,
            timeout=UP_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.run("env").splitlines())


@contextmanager
def stack(folder: Path, *arguments: str, **settings: str) -> Iterator[RunningStack]:
    """Bring a stack up for the length of the block."""
    opened = RunningStack(folder, settings)
    try:
        opened.run("up", *arguments)
        yield opened
    finally:
        opened.run("down")


@pytest.fixture
def breakable_stack(tmp_path: Path) -> Iterator[RunningStack]:
    with stack(tmp_path / "stack", "--fakes", BA_NATS_ACK_WAIT_S="3", BA_LOG_LEVEL="warning") as opened:
        yield opened


@pytest.fixture
def servers(nats_server: Nats, postgres_server: Postgres, store: Database, dsn: str, tmp_path: Path) -> Servers:
    return Servers(nats_server, postgres_server, store, dsn, tmp_path)


@pytest.fixture
async def fcm(servers: Servers) -> AsyncIterator[Rig]:
    async with rig("fcm", servers) as opened:
        yield opened


@pytest.fixture
async def channels(servers: Servers) -> AsyncIterator[tuple[Rig, Rig]]:
    async with both_channels(servers) as opened:
        yield opened
