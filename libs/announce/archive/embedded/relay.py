import asyncio
import tempfile
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_PIECE_BYTES: Final = 1 << 18
_MEMORY_BYTES: Final = 1 << 22
# So far the engine may be ahead of a client that reads slowly. What is behind that waits, and with it everybody.
_AHEAD_BYTES: Final = 1 << 30


class AbandonedError(Exception):
    """Nobody wants the rest of the answer."""


class Relay:
    """An answer on its way from the engine's thread to a client.

    The engine serves one statement after the other, so it has to get rid of an answer at its own speed. What the client
    hasn't taken yet waits here: a little in memory, the rest in a file without a name.

    Args:
        folder: for the file.
        whole: keep all of the answer until it is complete, however much it is.
        ahead_bytes: how much may wait otherwise.
    """

    def __init__(self, folder: Path, *, whole: bool, ahead_bytes: int = _AHEAD_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead_bytes = ahead_bytes
        self._whole = whole
        self._news = asyncio.Event()
        self._changed = threading.Condition()
        self._file = tempfile.SpooledTemporaryFile(_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - __exit__ closes it
        self._taken = self._given = 0
        self._closed = self._ended = False
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closed = True
            self._file.close()
            self._changed.notify_all()

    def put(self, piece: bytes) -> None:
        """Hand over a piece, in the engine's thread; wait when the client is too far behind.

        Raises:
            AbandonedError: nobody waits for it any more.
        """
        with self._changed:
            self._changed.wait_for(self._has_room)
            if self._closed:
                raise AbandonedError
            self._file.seek(self._given)
            self._file.write(piece)
            self._given += len(piece)
        self._loop.call_soon_threadsafe(self._news.set)

    def follow(self, source: asyncio.Future[None]) -> None:
        """Take notice, in the event loop, that what puts the pieces has ended, and how."""
        self._ended = True
        self._error = None if source.cancelled() else source.exception()
        self._news.set()

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Take the answer. An error is raised behind what came before it, but at once if nothing was taken yet."""
        while not self._ended and (self._whole or not self._given):
            await self._next()
        if self._error is not None:
            raise self._error
        while True:
            while piece := self._take():
                yield piece
            if self._ended:
                break
            await self._next()
        if self._error is not None:
            raise self._error

    async def _next(self) -> None:
        await self._news.wait()
        self._news.clear()

    def _has_room(self) -> bool:
        return self._closed or self._whole or self._given - self._taken < self._ahead_bytes

    def _take(self) -> bytes:
        with self._changed:
            self._file.seek(self._taken)
            piece = self._file.read(_PIECE_BYTES)
            self._taken += len(piece)
            if self._taken == self._given:
                # The client has caught up, and the file needn't grow any further.
                self._file.seek(0)
                self._file.truncate()
                self._taken = self._given = 0
            self._changed.notify_all()
        return piece
