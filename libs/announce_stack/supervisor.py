import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, Signals

import msgspec

from announce_stack import record
from announce_stack.failure import StackError
from announce_stack.process import Process, identify
from announce_stack.report import Report, silent
from announce_stack.server import Server

POLL_S = 0.03
READY_TIMEOUT_S = 60.0
# Longer than the time that a service gives its deliveries in flight.
STOP_GRACE_S = 40.0
KILL_TIMEOUT_S = 10.0
LOG_LINES_SHOWN = 15
OWNER_ONLY = 0o700


class Entry(msgspec.Struct, frozen=True):
    """A server that was started, as it is kept in the folder."""

    process: Process
    stop_signal: int
    ports: tuple[int, ...]


class Supervisor:
    """Starts and ends servers that outlive it, and knows those of its folder again later.

    What it started is written to `processes.json` in the folder; the output goes to `logs/NAME.log`.
    """

    def __init__(self, folder: Path, report: Report = silent) -> None:
        self.folder = folder
        self._report = report
        self._file = folder / "processes.json"

    def running(self) -> dict[str, Entry]:
        """The servers that run now, by name."""
        return {name: entry for name, entry in self._recorded().items() if entry.process.is_alive()}

    def log(self, name: str) -> Path:
        """Where the output of a server goes."""
        return self.folder / "logs" / f"{name.replace(':', '-')}.log"

    def start(self, servers: Iterable[Server]) -> list[Server]:
        """Prepares and starts those that don't run yet, without waiting until they are ready.

        Returns:
            the ones that it started.
        """
        (self.folder / "logs").mkdir(parents=True, exist_ok=True, mode=OWNER_ONLY)
        running = self.running()
        fresh = [server for server in servers if server.name not in running]
        for server in fresh:
            server.prepare()
            running[server.name] = Entry(self._spawn(server), server.stop_signal, server.ports)
            record.write(self._file, running)
        return fresh

    def wait_ready(self, servers: Iterable[Server], timeout_s: float = READY_TIMEOUT_S) -> None:
        """Returns once all of them answer, and reports each as it does.

        Raises:
            StackError: one ended, or didn't answer in time; with the last lines of its log.
        """
        begun = time.monotonic()
        waiting = list(servers)
        while waiting:
            running = self.running()
            for server in list(waiting):
                if server.name not in running:
                    raise StackError(f"{server.name} ended before it was ready. {last_lines(self.log(server.name))}")
                if server.ready():
                    waiting.remove(server)
                    self._report(f"{server.name} is ready")
                elif time.monotonic() - begun > timeout_s:
                    raise StackError(
                        f"{server.name} was not ready within {timeout_s:.0f} s. {last_lines(self.log(server.name))}"
                    )
            if waiting:
                time.sleep(POLL_S)

    def stop(self, names: Iterable[str], grace_s: float = STOP_GRACE_S) -> None:
        """Asks servers to end, all at once, and kills those that have not after `grace_s`."""
        running = self.running()
        stopping = [running[name] for name in names if name in running]
        families = [relative for entry in stopping for relative in entry.process.family()]
        deadline = time.monotonic() + grace_s
        for entry in stopping:
            entry.process.send(Signals(entry.stop_signal))
        for entry in stopping:
            if not entry.process.wait(deadline - time.monotonic()):
                self._report(f"pid {entry.process.pid} did not end within {grace_s:.0f} s and is killed")
        _end([entry.process for entry in stopping] + families)

    def kill(self, names: Iterable[str]) -> None:
        """Ends servers at once with SIGKILL, and their child processes with them."""
        running = self.running()
        killed = [running[name].process for name in names if name in running]
        _end(killed + [relative for process in killed for relative in process.family()])

    def _spawn(self, server: Server) -> Process:
        argv = server.account.command(server.argv) if server.account else server.argv
        log = os.open(self.log(server.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, record.OWNER_ONLY)
        try:
            pid = os.posix_spawnp(
                "env",
                # posix_spawn can't change the folder; env does, and becomes the server without a new pid.
                ("env", "-C", str(server.folder), *argv),
                inherited() | dict(server.environment),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                # A shell's background job ignores SIGINT, Python ignores SIGPIPE; a server should not inherit that.
                setsigdef=[SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM],
                setsigmask=[],
            )
        finally:
            os.close(log)
        process = identify(pid)
        if process is None:
            raise StackError(f"{server.name} could not be started")
        return process

    def _recorded(self) -> dict[str, Entry]:
        return record.read(self._file, dict[str, Entry]) or {}


def _end(processes: Sequence[Process]) -> None:
    for process in processes:
        process.send(SIGKILL)
    for process in processes:
        process.wait(KILL_TIMEOUT_S)


def inherited() -> dict[str, str]:
    """What a server inherits: neither the caller's Postgres defaults nor the settings of another stack."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "BA_"))}


def last_lines(log: Path) -> str:
    """The end of a log, to be shown where something failed."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join([f"Its log, {log}, ends with:", *lines])
