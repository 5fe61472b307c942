"""Processes that outlive the program that started them, and are never mistaken for others."""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec

PROC = Path("/proc")
ENDED = frozenset("ZX")


class Process(msgspec.Struct, frozen=True):
    """A process by its pid and the moment it started, since the kernel uses a pid again.

    Attributes:
        pid: the process id.
        started: the boot it belongs to and the clock ticks from that boot to its start (proc(5), field 22).
    """

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Whether this very process still runs. One that has ended but was not waited for does not."""
        stat = _stat(self.pid)
        if stat is None or stat.identity != self.started:
            return False
        if stat.state in ENDED:
            self._reap()
            return False
        return True

    def send(self, number: signal.Signals) -> None:
        """Signals the process, or does nothing when it has ended."""
        with suppress(ProcessLookupError), _pidfd(self.pid) as descriptor:
            if self.is_alive():
                signal.pidfd_send_signal(descriptor, number)

    def wait(self, timeout_s: float) -> bool:
        """Waits for the process to end; False when it still runs after `timeout_s`."""
        with suppress(ProcessLookupError), _pidfd(self.pid) as descriptor:
            if self.is_alive():
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(max(timeout_s, 0) * 1000)
        return not self.is_alive()

    def family(self) -> list["Process"]:
        """Its descendants, and what else belongs to its session."""
        stats = {stat.pid: stat for stat in _all_stats()}
        return [
            Process(pid, stat.identity)
            for pid, stat in stats.items()
            if pid != self.pid and (stat.session == self.pid or self.pid in _ancestors(pid, stats))
        ]

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)

    def age_s(self) -> float:
        """Seconds since it started."""
        ticks = int(self.started.rpartition(":")[2])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def identify(pid: int) -> Process | None:
    """The process that has this pid now."""
    stat = _stat(pid)
    return None if stat is None else Process(pid, stat.identity)


def at_work_in(folder: Path) -> list[Process]:
    """The processes whose working folder is `folder`, as far as the caller may see it."""
    found = []
    for entry in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cwd").readlink() == folder:
                found.append(identify(int(entry.name)))
    return [process for process in found if process is not None]


class _Stat(msgspec.Struct, frozen=True):
    pid: int
    state: str
    parent: int
    session: int
    identity: str


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, and may itself hold any character.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(pid, fields[0], int(fields[1]), int(fields[3]), f"{_boot()}:{fields[19]}")


def _all_stats() -> Iterator[_Stat]:
    for entry in PROC.glob("[0-9]*"):
        stat = _stat(int(entry.name))
        if stat is not None:
            yield stat


def _ancestors(pid: int, stats: dict[int, _Stat]) -> Iterator[int]:
    stat = stats.get(pid)
    while stat is not None:
        yield stat.parent
        stat = stats.get(stat.parent)


@cache
def _boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


@contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    """A descriptor of the process: it can't come to mean another one, as a pid can."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
