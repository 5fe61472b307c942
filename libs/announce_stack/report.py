import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str], None]
"""Takes one line of progress for the person who waits."""


def silent(_line: str) -> None:
    """A Report for callers that show nothing."""


class Stopwatch:
    """A Report that prints each line with the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, line: str) -> None:  # noqa: D102 - the class says it
        print(f"{time.monotonic() - self._start:6.1f} s  {line}", flush=True)


def to_stderr(line: str) -> None:
    """A Report that leaves standard output to the answer."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def timed(report: Report, what: str) -> Iterator[None]:
    """Reports `what` with how long the block took, once it has succeeded."""
    start = time.monotonic()
    yield
    report(f"{what} ({time.monotonic() - start:.1f} s)")
