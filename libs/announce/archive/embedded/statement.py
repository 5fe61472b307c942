"""What a statement is, as far as its execution depends on it: whether it reads, loads rows or does something else.

The engine parses SQL itself. It does not say, though, in which format it is going to answer, where in a request's
body the rows of an INSERT begin, or that a text holds two statements (it runs both). So statements are cut into
tokens here, which needs ClickHouse's lexical rules and no grammar.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from announce.archive.embedded.failure import QueryError, not_implemented, syntax_error

_TOKEN: Final = re.compile(
    rb"""
      (?P<blank>  \s+ | --[^\n]* | \#[!\ ][^\n]* | /\*.*?\*/ )
    | (?P<quoted> '(?:[^'\\]|\\.)*' | `(?:[^`\\]|\\.)*` | "(?:[^"\\]|\\.)*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<word>   [\w\x80-\xff]+ )
    | (?P<mark>   . )
    """,
    re.VERBOSE | re.DOTALL,
)
# With this setting, every DROP has the SYNC that `parse` takes off.
WAIT_SETTING: Final = "database_atomic_wait_for_drop_and_detach_synchronously"
_DATA_START: Final = re.compile(rb"[ \t\f]*\r?\n?")
_READING: Final = {b"SELECT", b"WITH", b"FROM", b"("}
_BEFORE_TARGET: Final = {b"INTO", b"TABLE", b"."}
_BEFORE_VICTIM: Final = {b"EXISTS", b"EMPTY", b".", b","}
_ANSWERING: Final = {b"SHOW", b"DESCRIBE", b"DESC", b"EXPLAIN", b"EXISTS", b"CHECK"}


@dataclass(frozen=True, slots=True)
class Read:
    """A SELECT.

    Attributes:
        text: the statement.
        format: the output format that it names.
        output_at: where in the text an INTO OUTFILE clause has its place.
    """

    text: bytes
    format: str | None
    output_at: int


@dataclass(frozen=True, slots=True)
class Load:
    """An INSERT whose rows come with it.

    Attributes:
        target: the statement up to its SETTINGS, VALUES or FORMAT.
        settings: its SETTINGS clause, or nothing.
        format: the format of the rows.
        data_at: where in the text the rows begin.
    """

    target: bytes
    settings: bytes
    format: bytes
    data_at: int

    def text(self, path: str) -> bytes:
        """Write the statement that loads the rows from a file."""
        source = b" FROM INFILE '%b' COMPRESSION 'none' " % path.encode()
        return self.target + source + self.settings + b" FORMAT " + self.format


@dataclass(frozen=True, slots=True)
class Command:
    """Anything else.

    Attributes:
        text: the statement.
        format: the output format that it names.
        answers: it answers with rows, even if there are none.
    """

    text: bytes
    format: str | None
    answers: bool


@dataclass(frozen=True, slots=True)
class _Token:
    text: bytes  # in capitals when it is a word
    start: int
    end: int
    depth: int  # of round brackets


def find_load(text: bytes) -> Load | None:
    """Read the head of an INSERT whose rows follow; None if the text is, or so far looks like, something else.

    Args:
        text: the beginning of a statement, which may go on with rows of any format.

    Raises:
        QueryError: rows follow, but in a way that ClickHouse does not take.
    """
    tokens = (token for token in _tokens(text) if token.depth == 0)
    if [token.text for _, token in zip(range(2), tokens, strict=False)] != [b"INSERT", b"INTO"]:
        return None
    settings_at = None
    previous = b"INTO"
    for token in tokens:
        # Behind these a name is due, and a table may well be called `values`.
        if previous not in _BEFORE_TARGET:
            match token.text:
                case b"SETTINGS":
                    settings_at = token.start
                case b"VALUES":
                    return _load(text, settings_at, token, b"Values", token.end)
                case b"FORMAT":
                    name = next(tokens, None)
                    if name is None:
                        return None
                    return _load(text, settings_at, token, text[name.start : name.end], _rows_at(text, name))
                case b"SELECT" | b"WITH" | b"FROM":
                    return None
                case _:
                    pass
        previous = token.text
    return None


def parse(text: bytes) -> Read | Command:
    """Tell what a whole statement without rows is.

    Raises:
        QueryError: there is none, there are several, or it reaches for the server's files.
    """
    tokens = list(_tokens(text))
    while tokens and tokens[-1].text == b";":
        tokens.pop()
    if not tokens:
        raise syntax_error("Empty query")
    _refuse(tokens)
    end = tokens[-1].end
    clause = _format_clause(tokens)
    output_at, name = (clause[0].start, clause[1]) if clause else (end, None)
    named = text[name.start : name.end].decode(errors="replace") if name else None
    first = tokens[0].text
    inserts = first == b"WITH" and any(token.text == b"INSERT" and token.depth == 0 for token in tokens)
    if first in _READING and not inserts:
        return Read(text[:end], named, output_at)
    return Command(_without_wait(text[:end], tokens), named, first in _ANSWERING)


def _tokens(text: bytes) -> Iterator[_Token]:
    depth = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "blank":
            continue
        token = match[0].upper() if match.lastgroup == "word" else match[0]
        depth -= token == b")"
        yield _Token(token, match.start(), match.end(), depth)
        depth += token == b"("


def _load(text: bytes, settings_at: int | None, clause: _Token, rows: bytes, data_at: int) -> Load:
    split = clause.start if settings_at is None else settings_at
    return Load(text[:split], text[split : clause.start], rows, data_at)


def _rows_at(text: bytes, name: _Token) -> int:
    """Find where rows begin: behind the format's name, blanks and at most one end of line."""
    if text[name.end : name.end + 1] == b";":
        raise syntax_error("a ';' stands between the format of an INSERT and its rows")
    blanks = _DATA_START.match(text, name.end)
    return blanks.end() if blanks else name.end


def _format_clause(tokens: list[_Token]) -> tuple[_Token, _Token] | None:
    """Find the word FORMAT and the name behind it; the clause is a statement's last but for SETTINGS."""
    outer = [token for token in tokens if token.depth == 0]
    for clause, name, follower in zip(outer[1:], outer[2:], [*outer[3:], None], strict=False):
        if clause.text == b"FORMAT" and (follower is None or follower.text == b"SETTINGS"):
            return clause, name
    return None


def _without_wait(text: bytes, tokens: list[_Token]) -> bytes:
    """Take the SYNC off a DROP.

    It would wait until a dropped table's files are gone, and nothing in chdb removes them: it would wait for ever, and
    hold the engine. The table itself is gone at once in either case.
    """
    if tokens[0].text != b"DROP":
        return text
    # The shortest is DROP TABLE name SYNC.
    for before, token in pairwise(tokens[2:]):
        if token.text == b"SYNC" and before.text not in _BEFORE_VICTIM:
            return text[: token.start] + text[token.end :]
        if (before.text, token.text) == (b"NO", b"DELAY"):
            return text[: before.start] + text[token.end :]
    return text


def _refuse(tokens: list[_Token]) -> None:
    """Refuse what an HTTP server refuses and the engine, made for local use, would do."""
    words = [token.text for token in tokens]
    if b";" in words:
        raise syntax_error("Multi-statements are not allowed")
    for pair in pairwise(words):
        if pair in {(b"INTO", b"OUTFILE"), (b"FROM", b"INFILE")}:
            raise QueryError(48, "NOT_IMPLEMENTED", f"{pair[0].decode()} {pair[1].decode()} is not allowed over HTTP")
    if words[0] == b"DROP" and WAIT_SETTING.upper().encode() in words:
        raise not_implemented(WAIT_SETTING)
    if words[0] == b"INSERT" and (b"INPUT", b"(") in pairwise(words):
        raise not_implemented("INSERT … SELECT … FROM input()")
