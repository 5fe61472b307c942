"""Programs that bring the servers to what the services expect, and end."""

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from announce_stack import layout
from announce_stack.failure import StackError
from announce_stack.report import Report, timed
from announce_stack.supervisor import inherited, last_lines

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run to its end.

    Attributes:
        name: of its log.
        done: what is reported when it has succeeded.
        command: the module, and its arguments.
    """

    name: str
    done: str
    command: tuple[str, ...]


MIGRATIONS = Job("migrate", "database migrated", ("announce.store.migrate", "up"))
STREAMS = Job("bus-setup", "streams made", ("announce.bus.setup",))
DEMO = Job("seed", "demo company and operator are there", ("announce_stack.seed",))


def run(jobs: Sequence[Job], folder: Path, environment: Mapping[str, str], report: Report) -> None:
    """Runs jobs at the same time, with their output in `folder`.

    Raises:
        StackError: one failed or didn't end in time; with the last lines of its output.
    """
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda job: _run(job, folder / f"{job.name}.log", environment, report), jobs))


def _run(job: Job, log: Path, environment: Mapping[str, str], report: Report) -> None:
    with timed(report, job.done), log.open("ab") as output:
        try:
            status = subprocess.run(
                layout.module(*job.command),
                check=False,
                env=inherited() | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            raise StackError(f"{job.name} did not end within {TIMEOUT_S} s. {last_lines(log)}") from None
        if status:
            raise StackError(f"{job.name} failed with status {status}. {last_lines(log)}")
