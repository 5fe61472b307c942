"""The pieces of a SELECT's answer, in memory that doesn't grow with it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from announce.archive.embedded.connection import quote
from announce.archive.embedded.engine import Call
from announce.archive.embedded.inquiry import Inquiry
from announce.archive.embedded.statement import Read

_PIECE_BYTES: Final = 1 << 18

# chdb writes each block of rows as a document of the format. Only of these formats do documents one behind the other
# make a document; the answer in any other is written to a file by the engine, and sent when it is whole.
_STREAMED: Final = {
    *("native", "rowbinary", "tabseparated", "tsv", "tabseparatedraw", "tsvraw", "csv"),
    *("jsoneachrow", "jsonlines", "ndjson", "jsoncompacteachrow", "jsonstringseachrow", "jsoncompactstringseachrow"),
}
_DOCUMENT_SETTING: Final = "output_format_json_array_of_rows"


def pieces(call: Call, read: Read, inquiry: Inquiry) -> AsyncGenerator[bytes]:
    """Return the pieces of a SELECT's answer; it runs while they are taken.

    Args:
        call: what to run it with.
        read: the statement.
        inquiry: the request that it came with.

    Raises:
        QueryError: it failed.
    """
    if _is_streamed(read, inquiry):
        return call.stream(read.text, inquiry.output, whole=inquiry.whole)
    return _through_file(call, read, inquiry.output)


def _is_streamed(read: Read, inquiry: Inquiry) -> bool:
    output = (read.format or inquiry.output).lower()
    array = _DOCUMENT_SETTING in inquiry.scope.settings or _DOCUMENT_SETTING.encode() in read.text
    return output in _STREAMED and not array


async def _through_file(call: Call, read: Read, output: str) -> AsyncGenerator[bytes]:
    def text(path: Path) -> bytes:
        clause = f"\nINTO OUTFILE {quote(str(path))} ".encode()
        return read.text[: read.output_at] + clause + read.text[read.output_at :]

    with await call.save(text, output) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
