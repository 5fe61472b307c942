import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from announce_stack.demo.console import Style

GAP = "  "

Paint = Callable[[str, Style | None], str]


class Column(NamedTuple):
    """A column of a table; one that wraps gives way when a line would be too long."""

    title: str
    align: Literal["<", ">"] = "<"
    wraps: bool = False


class Cell(NamedTuple):
    """What stands in one place of a table."""

    text: str
    style: Style | None = None


def render(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, paint: Paint) -> Iterator[str]:
    """The lines of a table: the titles, a rule, then each row on as many lines as it needs.

    Args:
        columns: in their order.
        rows: a cell for each column.
        width: columns of text that a line may take, if that is possible at all.
        paint: gives a text its style.
    """
    widths = _widths(columns, rows, width)
    titles = [Cell(column.title, Style.BOLD) for column in columns]
    rule = [Cell("-" * size, Style.DIM) for size in widths]
    for row in (titles, rule, *rows):
        wrapped = [
            textwrap.wrap(cell.text, size, break_on_hyphens=False) for cell, size in zip(row, widths, strict=True)
        ]
        for texts in zip_longest(*wrapped, fillvalue=""):
            places = zip(texts, row, columns, widths, strict=True)
            yield GAP.join(_placed(*place, paint=paint) for place in places).rstrip()


def _placed(text: str, cell: Cell, column: Column, size: int, *, paint: Paint) -> str:
    """A piece of a cell's text, with its style, amid the blanks that fill its column."""
    blanks = " " * (size - len(text))
    painted = paint(text, cell.style) if text else ""
    return painted + blanks if column.align == "<" else blanks + painted


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """As wide as each column likes to be; then the widest that wraps is narrowed, until all fit."""
    texts = [[column.title, *(row[at].text for row in rows)] for at, column in enumerate(columns)]
    widths = [max(map(len, column)) for column in texts]
    longest_words = [max(len(word) for text in column for word in text.split() or [""]) for column in texts]
    for _ in range(sum(widths) + len(GAP) * (len(columns) - 1) - width):
        yielding = [at for at, column in enumerate(columns) if column.wraps and widths[at] > longest_words[at]]
        if yielding:
            widths[max(yielding, key=lambda at: widths[at])] -= 1
    return widths
