import io
import os
import pty

import pytest

from announce_stack.demo.console import Console, Style


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_there_are_colours_on_a_terminal_for_those_who_want_them(
    stream: io.StringIO, environment: dict[str, str], *, coloured: bool
) -> None:
    Console(stream, environment).line("text", Style.RED)
    assert stream.getvalue() == ("\033[31mtext\033[0m\n" if coloured else "text\n")


def test_progress_shows_the_seconds_since_the_start() -> None:
    shown = io.StringIO()
    Console(shown, {}).progress("started")
    assert shown.getvalue() == "   0.0 s  started\n"


def test_a_reader_that_has_gone_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        console = Console(stream, {})
        console.line("nobody reads this")
        assert not console.read
        console.line("nor this")


def test_a_terminal_that_was_closed_is_no_error() -> None:
    controller, terminal = pty.openpty()
    os.close(controller)
    with os.fdopen(terminal, "w") as stream:
        console = Console(stream, {})
        console.line("nobody sees this")
        assert not console.read
