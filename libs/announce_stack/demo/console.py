import os
import shutil
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TextIO

STANDARD_WIDTH = 80


class Style(StrEnum):
    """How a piece of text stands out on a terminal (the numbers are those of ECMA-48's SGR)."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"


class Console:
    """Where the demo talks: with colours to somebody at a terminal, plainly to everything else.

    A reader that has gone away is no error: what follows is dropped, so that the stack is still taken down in order.

    Attributes:
        width: columns that a line may take.
        read: whether somebody still reads.
    """

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._coloured = stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        self.width = shutil.get_terminal_size((STANDARD_WIDTH, 0)).columns
        self.read = True

    def paint(self, text: str, style: Style | None) -> str:
        """The text in a style, where there are colours."""
        return f"\033[{style}m{text}\033[0m" if style and self._coloured else text

    def line(self, text: str = "", style: Style | None = None) -> None:
        """Writes one line."""
        if not self.read:
            return
        try:
            print(self.paint(text, style), file=self._stream, flush=True)
        except OSError:
            self.read = False
            # Python flushes once more when it ends, and would complain of the reader that has gone.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def progress(self, text: str) -> None:
        """Writes one line with the seconds since the start. It is a `Report`."""
        self.line(f"{self.paint(f'{time.monotonic() - self._start:6.1f} s', Style.DIM)}  {text}")

    def heading(self, text: str) -> None:
        """Writes a line that begins a part."""
        self.line()
        self.line(text, Style.BOLD)
