"""What the scenarios of scripts/bench share: a stack for one run, and how they tell of many durations."""

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from announce_stack.request import Request
from announce_stack.stack import Stack


@contextmanager
def running_stack() -> Iterator[dict[str, str]]:
    """Run a stack with the fakes in a temporary folder for the length of the block; give what `env` says of it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # TimescaleDB runs as another user where we are root.
        Path(folder).chmod(0o755)
        stack = Stack(Path(folder), lambda _: None)
        try:
            stack.up(Request(fakes=True))
            yield stack.environment()
        finally:
            stack.down()


def percentile(seconds: Sequence[float], number: int) -> float:
    """Return a percentile of durations, in seconds; there must be two of them at least."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[number - 1]


def milliseconds(name: str, seconds: Sequence[float]) -> str:
    """Describe a distribution of durations."""
    p50, p95, p99 = (1000 * percentile(seconds, number) for number in (50, 95, 99))
    return f"{name}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms, worst {1000 * max(seconds):.1f} ms"
