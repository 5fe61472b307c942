"""An alert's text as Telegram takes it: within the limit on what is left when the markup, if any, is gone."""

from html import escape
from typing import Final

MAX_UNITS: Final = 4096
"""Telegram's limit, in UTF-16 code units after entity parsing."""
_GAP: Final = "\n\n"
_ELLIPSIS: Final = "…"


def write_html(title: str, body: str) -> str:
    """Write the title in bold above the body. What is too long ends with an ellipsis."""
    # Cut first: escaping lengthens the text, but Telegram counts it unescaped, and a cut entity would be refused.
    shown_title = cut(title, MAX_UNITS)
    room = MAX_UNITS - units(shown_title) - units(_GAP)
    shown_body = cut(body, room) if room > 0 else ""
    html = f"<b>{escape(shown_title, quote=False)}</b>"
    return f"{html}{_GAP}{escape(shown_body, quote=False)}" if shown_body else html


def write_plain(title: str, body: str) -> str:
    """Write the title above the body, as they are. What is too long ends with an ellipsis."""
    return cut(f"{title}{_GAP}{body}" if body else title, MAX_UNITS)


def cut(text: str, max_units: int) -> str:
    """Shorten a text to so many UTF-16 code units (at least 1), never within a surrogate pair."""
    if units(text) <= max_units:
        return text
    kept = text.encode("utf-16-le")[: 2 * (max_units - units(_ELLIPSIS))]
    # Half a pair at the end can't be decoded, and is dropped.
    return kept.decode("utf-16-le", "ignore") + _ELLIPSIS


def units(text: str) -> int:
    """Measure a text in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2
