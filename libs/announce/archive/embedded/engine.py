import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from announce.archive.embedded import connection
from announce.archive.embedded.connection import Connection, Scope
from announce.archive.embedded.relay import AbandonedError, Relay

T = TypeVar("T")

# A statement may be cancelled before it has begun, and then nothing is there to cancel yet: it is tried again.
_KILL_AGAIN_S: Final = 0.2
# At the end of the process, what is killed has so long to notice.
_LAST_KILL_S: Final = 10


class Engine:
    """The one engine of the process, which serves one statement after the other, in one thread.

    Args:
        folder: the engine's data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._thread = ThreadPoolExecutor(1, "engine")
        # Killing takes a thread of its own, since what is to be killed occupies the other.
        self._killer = ThreadPoolExecutor(1, "killer")
        self._killing: set[asyncio.Task[None]] = set()
        self.version = self.timezone = ""

    async def open(self) -> None:
        """Start the engine and learn its version and time zone.

        Raises:
            EngineUnavailableError: it can't be started.
        """
        # This connection stays open, for the engine stops with its last one.
        self._anchor = await asyncio.wrap_future(self.submit(lambda: connection.connect(self.folder)))
        facts = self.submit(lambda: self._anchor.query(b"SELECT version(), timezone()", "TSV", params={}).bytes())
        self.version, self.timezone = (await asyncio.wrap_future(facts)).decode().split()

    async def close(self, grace_s: float) -> bool:
        """Stop the engine; what runs has so many seconds to end and is then killed. Tell whether all has ended."""
        end = asyncio.wrap_future(self.submit(self._anchor.close))
        await asyncio.wait({end}, timeout=grace_s)
        if not end.done():
            await self._kill(None, end, limit_s=_LAST_KILL_S)
        if end.done():
            self._thread.shutdown()
            self._killer.shutdown()
        return end.done()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Have a job done in the engine's thread, after those that were submitted before."""
        return self._thread.submit(job)

    async def wait(self, job: Future[T], mark: str | None) -> T:
        """Wait for a job. When the caller is cancelled, so is a job that hasn't begun, or one that has a mark."""
        result = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            if not job.cancel():
                result.add_done_callback(_forget)
                if mark is not None:
                    task = asyncio.create_task(self._kill(mark, result))
                    self._killing.add(task)
                    task.add_done_callback(self._killing.discard)
            raise

    async def _kill(self, mark: str | None, result: asyncio.Future[T], limit_s: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not result.done():
                    await loop.run_in_executor(self._killer, connection.kill, self.folder, mark)
                    await asyncio.wait({result}, timeout=_KILL_AGAIN_S)


class Call:
    """A statement and what holds for it.

    Args:
        engine: where it runs.
        scope: what holds for it.
        spool: a folder for an answer on its way.
    """

    def __init__(self, engine: Engine, scope: Scope, spool: Path) -> None:
        self._engine = engine
        self._scope = scope
        self._spool = spool
        self.progress: dict[str, int] = {}

    async def run(self, text: bytes, output: str, *, killable: bool, done: Callable[[], None] | None = None) -> bytes:
        """Run a statement to its end and return its answer in the output format.

        Args:
            text: the statement.
            output: the format of an answer whose statement names none.
            killable: whether it is cancelled when the caller is. A server, too, lets what writes run to its end.
            done: is called as soon as the engine is through with it, or is sure not to begin.

        Raises:
            QueryError: it failed.
        """

        def job() -> bytes:
            with self._connection() as opened:
                return opened.run(text, output)

        future = self._engine.submit(job)
        if done is not None:
            future.add_done_callback(lambda _: done())
        return await self._engine.wait(future, self._scope.mark if killable else None)

    async def stream(self, text: bytes, output: str, *, whole: bool) -> AsyncGenerator[bytes]:
        """Run a SELECT and yield the pieces of its answer as they come, or when the whole of it is there.

        Raises:
            QueryError: it failed.
        """
        with Relay(self._spool, whole=whole) as relay:

            def job() -> None:
                with contextlib.suppress(AbandonedError), self._connection() as opened:
                    for piece in opened.select(text, output):
                        relay.put(piece)

            task = asyncio.create_task(self._engine.wait(self._engine.submit(job), self._scope.mark))
            task.add_done_callback(relay.follow)
            try:
                async for piece in relay.pieces():
                    yield piece
            finally:
                task.cancel()

    async def save(self, text: Callable[[Path], bytes], output: str) -> BinaryIO:
        """Run a SELECT that writes its answer to a file; return the file, which has lost its name.

        Args:
            text: makes the statement from the path.
            output: the format of an answer whose statement names none.

        Raises:
            QueryError: it failed.
        """
        # The engine writes to a file beside this one first and renames it, so it has to have a name.
        path = self._spool / uuid.uuid4().hex

        def job() -> BinaryIO:
            try:
                with self._connection() as opened:
                    opened.run(text(path), output)
                return path.open("rb")
            finally:
                path.unlink(missing_ok=True)

        return await self._engine.wait(self._engine.submit(job), self._scope.mark)

    def _connection(self) -> Connection:
        return Connection(self._engine.folder, self._scope, self.progress)


def _forget(result: asyncio.Future[T]) -> None:
    """Take notice of an outcome that nobody waits for, so that asyncio doesn't complain."""
    if not result.cancelled():
        result.exception()
