"""Receives a request's body: SQL, rows or both, compressed or not, in memory that doesn't grow with the rows."""

import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import StreamReader, hdrs, web

from announce.archive.embedded.encoding import Decoder
from announce.archive.embedded.failure import QueryError
from announce.archive.embedded.statement import Command, Read, find_load, parse

_PIECE_BYTES: Final = 1 << 18
# Within so many bytes of an INSERT, its rows begin.
_HEAD_BYTES: Final = 1 << 16
# ClickHouse's own limit is max_query_size, 256 KiB by default, which the engine watches over.
MAX_STATEMENT_BYTES: Final = 1 << 22


class Rows:
    """The rows of an INSERT, in a file without a name: it is gone as soon as nobody has it open, whatever happens.

    Args:
        folder: on whose disk the file is.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` closes it

    @property
    def path(self) -> str:
        """Where the engine finds the file, free of characters that it would take for a pattern."""
        return f"/proc/self/fd/{self._file.fileno()}"

    def write(self, rows: bytes) -> None:
        """Add rows."""
        self._file.write(rows)

    def finish(self) -> None:
        """Make all that was written visible to the engine."""
        self._file.flush()

    def close(self) -> None:
        """Give the file up."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT and the rows that came with it.

    Attributes:
        text: the statement that takes them from their file.
        rows: the file, to be closed by whoever runs the statement.
    """

    text: bytes
    rows: Rows


async def receive(request: web.Request, sql: bytes, folder: Path) -> Read | Command | Insert:
    """Receive a statement whose text, or beginning, is in the URL and whose rest is in the body.

    Args:
        request: whose body to read.
        sql: the text in the URL.
        folder: for the file of rows.

    Raises:
        QueryError: the body can't be decoded, or the statement is none or too long.
    """
    pieces = _decoded(request.content, request.headers.get(hdrs.CONTENT_ENCODING, "").lower())
    text = bytearray(sql + b"\n" if sql else b"")
    async for piece in pieces:
        text += piece
        if len(text) >= len(sql) + _HEAD_BYTES:
            break
    load = find_load(bytes(text))
    if load is not None:
        rows = await _spooled(bytes(text[load.data_at :]), pieces, folder)
        return Insert(load.text(rows.path), rows)
    async for piece in pieces:
        text += piece
        if len(text) > MAX_STATEMENT_BYTES:
            raise QueryError(78, "QUERY_IS_TOO_LARGE", f"The statement is longer than {MAX_STATEMENT_BYTES} bytes")
    return parse(bytes(text))


async def _decoded(body: StreamReader, coding: str) -> AsyncIterator[bytes]:
    decoder = Decoder(coding)
    async for piece in body.iter_chunked(_PIECE_BYTES):
        yield decoder.decode(piece)
    decoder.finish()


async def _spooled(first: bytes, pieces: AsyncIterator[bytes], folder: Path) -> Rows:
    rows = Rows(folder)
    try:
        rows.write(first)
        async for piece in pieces:
            rows.write(piece)
        rows.finish()
    except BaseException:
        rows.close()
        raise
    return rows
