from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM, Signals

from announce_stack.account import Account
from announce_stack.readiness import Check


def _nothing() -> None:
    """What most servers need before they start."""


@dataclass(frozen=True, slots=True)
class Server:
    """All that is needed to run one process of the stack.

    Attributes:
        name: unique in a stack, such as `postgres` or `deliverd_fcm:2`.
        argv: the program and its arguments.
        environment: added to what the process inherits.
        folder: where it runs.
        ready: whether it answers; asked again and again until it does.
        ports: the TCP ports on loopback that it listens on.
        prepare: run before each start; must be quick when there is nothing left to do.
        account: whom it runs as when not as the caller.
        stop_signal: the one that makes it finish its work and end.
    """

    name: str
    argv: tuple[str, ...]
    folder: Path
    ready: Check
    ports: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = _nothing
    account: Account | None = None
    stop_signal: Signals = SIGTERM
