"""Small files that a stack remembers things in."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from announce_stack.failure import StackError

T = TypeVar("T")

OWNER_ONLY = 0o600


def read(path: Path, kind: type[T]) -> T | None:
    """What `write` has put into a file; None when there is no such file.

    Raises:
        StackError: it holds something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StackError(f"{path} is damaged: {error}") from None


def write(path: Path, value: object) -> None:
    """Replaces a file's content in one step: a crash leaves the old content or the new, never a part.

    Only the owner may read it.
    """
    content = msgspec.json.format(msgspec.json.encode(value))
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
