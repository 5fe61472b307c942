"""Batches: NDJSON in, NDJSON out, a result for each line."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from announce.runtime.problem import Problem
from ingestd.acceptance import Verdict
from ingestd.problems import empty_batch, too_large

MAX_LINES: Final = 1000
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
CONTENT_TYPE: Final = "application/x-ndjson"

SLICE_LINES: Final = 200
SLICE_BYTES: Final = 256 * 1024
"""How much is parsed before others get their turn."""

_encoder: Final = msgspec.json.Encoder()


class Line(NamedTuple):
    """One line of a batch, counted from 1."""

    number: int
    raw: bytes


class Taken(NamedTuple):
    """An alert that was taken in."""

    alert_id: str
    verdict: Verdict

    def document(self) -> dict[str, object]:
        """Return it as an answer's members."""
        return {"alert_id": self.alert_id, "status": self.verdict}


LineResult = Taken | Problem


def split_lines(body: bytes) -> list[Line]:
    """Split a batch; blank lines at its end don't count.

    Raises:
        Problem: 400, there is no line; 413, there are too many.
    """
    raw_lines = body.rstrip(b"\r\n\t ").split(b"\n")
    if raw_lines == [b""]:
        raise empty_batch()
    if len(raw_lines) > MAX_LINES:
        raise too_large("The batch", f"{MAX_LINES} lines")
    return [Line(number, raw) for number, raw in enumerate(raw_lines, start=1)]


def slices(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Cut a batch into portions of a bounded number of lines and, where one line isn't more, of bytes."""
    portion: list[Line] = []
    size = 0
    for line in lines:
        if portion and (len(portion) == SLICE_LINES or size + len(line.raw) > SLICE_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += len(line.raw)
    yield portion


def encode_results(results: Sequence[LineResult]) -> bytes:
    """Write the answer's body."""
    return _encoder.encode_lines([_document(number, result) for number, result in enumerate(results, start=1)])


def _document(number: int, result: LineResult) -> dict[str, object]:
    if isinstance(result, Taken):
        return {"line": number, **result.document()}
    return {"line": number, "status": "refused", "problem": result.document()}
