import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from announce_stack.report import Report


@contextmanager
def exclusive(path: Path, report: Report, waiting: str) -> Iterator[None]:
    """Holds an advisory lock on `path` for the block.

    The kernel lets go of it when the process ends, however it ends.

    Args:
        path: the lock file; made when it is not there, and left there.
        report: told `waiting` when somebody else holds the lock.
        waiting: what is being waited for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
