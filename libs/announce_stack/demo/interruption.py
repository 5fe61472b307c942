"""Ctrl-C, a plain kill and a closed terminal: each ends the demo in the same way, and only once."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_STATUS = 130


def interruptible(run: Callable[[], int]) -> int:
    """Runs a program in which the first of these signals raises KeyboardInterrupt, and no further one does.

    Returns:
        its exit status, or 130 when it was interrupted.
    """
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        return run()
    except KeyboardInterrupt:
        print("scripts/demo: interrupted; nothing was left running", file=sys.stderr)
        return EXIT_STATUS


def ignore() -> None:
    """From now on these signals do nothing: what is being taken down must not be left half way."""
    for number in SIGNALS:
        # Not SIG_IGN, which programs that are still being started would inherit.
        signal.signal(number, _pass_over)


def wait() -> None:
    """Returns when one of these signals comes."""
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    ignore()
    raise KeyboardInterrupt


def _pass_over(_number: int, _frame: FrameType | None) -> None:
    """Nothing is done."""
