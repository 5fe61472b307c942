"""Sends answers and errors the way ClickHouse does."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Final

from aiohttp import web

from announce.archive.embedded.encoding import Encoder
from announce.archive.embedded.failure import QueryError

# A client that takes nothing of its answer for so long is given up, for its SELECT holds memory in the engine.
_SEND_TIMEOUT_S: Final = 300
_WRITE_BYTES: Final = 1 << 18

_PLAIN: Final = "text/plain; charset=UTF-8"
_CONTENT_TYPES: Final = {
    "tabseparated": "text/tab-separated-values; charset=UTF-8",
    "tabseparatedwithnames": "text/tab-separated-values; charset=UTF-8",
    "tsv": "text/tab-separated-values; charset=UTF-8",
    "csv": "text/csv; charset=UTF-8; header=absent",
    "csvwithnames": "text/csv; charset=UTF-8; header=present",
    "json": "application/json; charset=UTF-8",
    "jsoncompact": "application/json; charset=UTF-8",
    "jsoneachrow": "application/x-ndjson; charset=UTF-8",
    "native": "application/octet-stream",
    "rowbinary": "application/octet-stream",
    "parquet": "application/octet-stream",
    "arrow": "application/octet-stream",
}
_COUNTS: Final = (
    "read_rows",
    "read_bytes",
    "written_rows",
    "written_bytes",
    "total_rows_to_read",
    "result_rows",
    "result_bytes",
    "elapsed_ns",
)


def format_headers(output: str) -> dict[str, str]:
    """Name the format of an answer."""
    return {"X-ClickHouse-Format": output, "Content-Type": _CONTENT_TYPES.get(output.lower(), _PLAIN)}


def summary_headers(progress: Mapping[str, int]) -> dict[str, str]:
    """Tell how much was read and written so far; ClickHouse writes these numbers as strings."""
    return {"X-ClickHouse-Summary": json.dumps({name: str(progress.get(name, 0)) for name in _COUNTS})}


def error_text(error: QueryError, version: str) -> str:
    """Write an error as ClickHouse does."""
    return f"{error} (version {version})\n"


def refuse(error: QueryError, version: str, headers: Mapping[str, str]) -> web.Response:
    """Answer with an error."""
    headers = {**headers, "X-ClickHouse-Exception-Code": str(error.code)}
    return web.Response(status=error.status, text=error_text(error, version), headers=headers)


class Stream:
    """An answer that is sent piece by piece.

    Args:
        request: what is answered.
        headers: the answer's.
        coding: what it is compressed with.
        version: the engine's.
    """

    def __init__(self, request: web.Request, headers: Mapping[str, str], coding: str | None, version: str) -> None:
        self._request = request
        self._encoder = Encoder(coding)
        self._version = version
        # What follows this tag in an answer is an error and no rows.
        self._tag = secrets.token_hex(8)
        self.response = web.StreamResponse(headers={**headers, "X-ClickHouse-Exception-Tag": self._tag})
        if coding:
            self.response.headers["Content-Encoding"] = coding

    async def send(self, first: bytes, rest: AsyncIterator[bytes]) -> web.StreamResponse:
        """Send the pieces.

        Once an answer has begun, its status can't tell that the statement failed. The error then stands at the end of
        what was sent, in the frame that ClickHouse has for it, and the connection breaks off, so that a client that
        doesn't look for the frame doesn't take the answer for a whole one either.
        """
        await self.response.prepare(self._request)
        await self._write(first)
        try:
            async for piece in rest:
                await self._write(piece)
        except QueryError as error:
            await self._write(self._frame(error))
            await self._put(self._encoder.finish())
            if self._request.transport is not None:
                self._request.transport.close()
            return self.response
        await self._put(self._encoder.finish())
        await self.response.write_eof()
        return self.response

    async def _write(self, piece: bytes) -> None:
        # Encoding releases the GIL, and a piece can be many megabytes.
        await self._put(await asyncio.to_thread(self._encoder.encode, piece) if piece else b"")

    async def _put(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await self.response.write(view[start : start + _WRITE_BYTES])

    def _frame(self, error: QueryError) -> bytes:
        text = error_text(error, self._version)
        return (
            f"\r\n__exception__\r\n{self._tag}\r\n{text}{len(text.encode())} {self._tag}\r\n__exception__\r\n".encode()
        )
