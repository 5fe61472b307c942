"""The demo's folder: one demo at a time, and never a stack that somebody else has started."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TextIO

from announce_stack import layout
from announce_stack.failure import StackError
from announce_stack.supervisor import Supervisor

DEFAULT = layout.REPOSITORY / ".stack" / "demo"
LOCK = "demo.lock"
IN_USE = "in use\n"
MAX_DEMOS = 20


class OccupiedError(StackError):
    """Something else is at work in the folder; the text says what."""


@contextmanager
def claimed(wanted: Path | None) -> Iterator[Path]:
    """A folder for this demo alone, for the length of the block.

    The lock file says so while the block runs. When it still does at the next start, no demo was there to take the
    stack down, so what runs there is a demo's to end.

    Args:
        wanted: the folder; None for `.stack/demo`, or the next one like it that is free.

    Raises:
        StackError: the folder can't be used, or something else is at work in it.
    """
    folder, lock = _claim(wanted) if wanted else _first_free()
    with lock:
        lock.truncate(0)
        lock.write(IN_USE)
        lock.flush()
        try:
            yield folder
        finally:
            if not Supervisor(folder).running():
                lock.truncate(0)


def _first_free() -> tuple[Path, TextIO]:
    numbered = (DEFAULT.with_name(f"{DEFAULT.name}-{number}") for number in count(2))
    for _, folder in zip(range(MAX_DEMOS), chain([DEFAULT], numbered), strict=False):
        try:
            return _claim(folder)
        except OccupiedError:
            continue
    raise StackError(f"{MAX_DEMOS} demos run already; `--dir DIR` takes another folder")


def _claim(folder: Path) -> tuple[Path, TextIO]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a+")
    except OSError as error:
        raise StackError(f"{folder} can't be used: {error.strerror}") from None
    try:
        _make_sure(folder, lock)
    except OccupiedError:
        lock.close()
        raise
    return folder, lock


def _make_sure(folder: Path, lock: TextIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OccupiedError(
            f"another demo runs in {folder}; without --dir this one takes a folder of its own"
        ) from None
    lock.seek(0)
    if lock.read() != IN_USE and Supervisor(folder).running():
        raise OccupiedError(
            f"a stack that no demo has started runs in {folder}: `scripts/stack down --dir {folder}` ends it, "
            "and without --dir the demo takes a folder of its own"
        )
