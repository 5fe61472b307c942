"""Handles on the real servers that tests start, kill and start again."""

from dataclasses import dataclass
from pathlib import Path

from announce_stack import nats, postgres
from announce_stack.supervisor import Supervisor

PASSWORD = "secret"


@dataclass(frozen=True, slots=True)
class Postgres:
    """The session's TimescaleDB."""

    folder: Path
    supervisor: Supervisor
    port: int

    def dsn(self, name: str = postgres.DATABASE) -> str:
        return postgres.dsn(self.port, PASSWORD, name)

    def kill(self) -> None:
        """SIGKILL it."""
        self.supervisor.kill([postgres.NAME])

    def start(self) -> None:
        """Start it, over the same data, and wait until it answers."""
        server = postgres.server(self.folder, self.port, PASSWORD)
        self.supervisor.start([server])
        self.supervisor.wait_ready([server])


@dataclass(frozen=True, slots=True)
class Nats:
    """A nats-server of one test."""

    folder: Path
    supervisor: Supervisor
    port: int
    monitor_port: int
    passwords: dict[str, str]

    def url(self, user: str = "admin") -> str:
        return nats.url(self.port, user, self.passwords)

    def kill(self) -> None:
        """SIGKILL it."""
        self.supervisor.kill([nats.NAME])

    def start(self) -> None:
        """Start it, over the same store, and wait until it answers."""
        server = nats.server(self.folder, self.port, self.monitor_port, self.passwords)
        self.supervisor.start([server])
        self.supervisor.wait_ready([server])
