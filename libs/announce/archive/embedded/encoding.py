"""Content codings: what a client may compress its rows with, and have answers compressed with."""

import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Final, Protocol

from announce.archive.embedded.failure import QueryError, not_implemented

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

lz4 = import_module("lz4.frame")  # it has no type hints

_GZIP: Final = 16 + zlib.MAX_WBITS
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_FASTEST: Final = 1


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class Decoder:
    """Decodes a body piece by piece. A body may be several frames one behind the other: clients write one a block.

    Args:
        coding: the request's Content-Encoding.

    Raises:
        QueryError: the coding isn't known.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._unpacker: _Unpacker | None = None
        if coding not in _UNPACKERS and coding not in {"", "identity"}:
            raise not_implemented(f"Content-Encoding {coding}")
        self._start = _UNPACKERS.get(coding)

    def decode(self, data: bytes) -> bytes:
        """Decode the next piece.

        Raises:
            QueryError: it is no such thing.
        """
        if self._start is None:
            return data
        rows = bytearray()
        rest: bytes | None = data
        while rest:
            if self._unpacker is None or self._unpacker.eof:
                self._unpacker = self._start()
            try:
                rows += self._unpacker.decompress(rest)
            except (zlib.error, zstd.ZstdError, RuntimeError) as error:
                raise self._refusal("can't be decoded") from error
            rest = self._unpacker.unused_data if self._unpacker.eof else None
        return bytes(rows)

    def finish(self) -> None:
        """Check that the body was whole.

        Raises:
            QueryError: its last frame has no end.
        """
        if self._unpacker is not None and not self._unpacker.eof:
            raise self._refusal("ends too early")

    def _refusal(self, what: str) -> QueryError:
        return QueryError(271, "CANNOT_DECOMPRESS", f"The body {what} (Content-Encoding: {self._coding})")


class Encoder:
    """Encodes an answer piece by piece.

    Args:
        coding: one that `choose` chose.
    """

    def __init__(self, coding: str | None) -> None:
        self._packer: _Packer | None = _PACKERS[coding]() if coding else None

    def encode(self, data: bytes) -> bytes:
        """Encode the next piece; some of it may come out with a later one."""
        return self._packer.compress(data) if self._packer else data

    def finish(self) -> bytes:
        """Return what is left to send."""
        return self._packer.flush() if self._packer else b""


def choose(accepted: str) -> str | None:
    """Choose a coding from an Accept-Encoding header, the cheapest first; None if there is none to choose."""
    offers = {offer.partition(";")[0].strip().lower() for offer in accepted.split(",")}
    return next((coding for coding in _PACKERS if coding in offers), None)


class _Lz4Packer:
    def __init__(self) -> None:
        self._packer = lz4.LZ4FrameCompressor()
        self._header: bytes = self._packer.begin()

    def compress(self, data: bytes, /) -> bytes:
        header, self._header = self._header, b""
        packed: bytes = self._packer.compress(data)
        return header + packed

    def flush(self) -> bytes:
        header, self._header = self._header, b""
        packed: bytes = self._packer.flush()
        return header + packed


_UNPACKERS: Final[dict[str, Callable[[], _Unpacker]]] = {
    "lz4": lz4.LZ4FrameDecompressor,
    "zstd": zstd.ZstdDecompressor,
    "gzip": lambda: zlib.decompressobj(_GZIP),
    "deflate": lambda: zlib.decompressobj(_GZIP_OR_ZLIB),
}
_PACKERS: Final[dict[str, Callable[[], _Packer]]] = {
    "lz4": _Lz4Packer,
    "zstd": lambda: zstd.ZstdCompressor(level=_FASTEST),
    "gzip": lambda: zlib.compressobj(_FASTEST, wbits=_GZIP),
    "deflate": lambda: zlib.compressobj(_FASTEST),
}
