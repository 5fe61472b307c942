"""A stack that is up for the length of a block, and leaves nothing behind, however the block ends."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

from announce_stack.demo import interruption
from announce_stack.process import identify
from announce_stack.report import Report
from announce_stack.request import Request
from announce_stack.stack import Stack
from announce_stack.supervisor import Supervisor

POLL_S = 0.1
BREAK_OFF_GRACE_S = 2.0


@contextmanager
def standing_stack(folder: Path, report: Report) -> Iterator[Mapping[str, str]]:
    """The whole system with the fakes; the block gets what `scripts/stack env` says of it.

    What an earlier demo, ended by force, has left running in the folder is taken down first.

    Raises:
        StackError: a part can't be had, or doesn't start.
    """
    stack = Stack(folder, report)
    running = Supervisor(folder).running
    if running():
        report("an earlier demo was ended by force: taking down what it has left")
        stack.down()
    try:
        _start(stack, folder)
        yield stack.environment()
    finally:
        interruption.ignore()
        if running():
            report("taking everything down")
            stack.down()


def _start(stack: Stack, folder: Path) -> None:
    """Runs `up` where no signal can tear it out of starting a server that nobody would know of then."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        # An interruption while the thread is being made would leave it to itself; so it is made before there is work.
        pool.submit(_nothing).result()
        start = pool.submit(stack.up, Request(fakes=True))
        try:
            # The system may hand a signal to either thread, but this one acts on it, once it wakes.
            while not wait([start], timeout=POLL_S).done:
                pass
        except KeyboardInterrupt:
            _break_off(start, folder)
            raise
        start.result()


def _break_off(start: Future[None], folder: Path) -> None:
    """Ends whatever `up` waits for, again and again until it gives up."""
    supervisor, own = Supervisor(folder), identify(os.getpid())
    while not wait([start], timeout=POLL_S).done:
        supervisor.stop(supervisor.running(), grace_s=BREAK_OFF_GRACE_S)
        # What is left are downloads, and programs that prepare the servers.
        for process in own.family() if own else ():
            process.send(SIGTERM)


def _nothing() -> None:
    """Makes a pool's thread start."""
