"""The engine's own interface, as far as this program uses it. Everything here blocks."""

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, cast

from announce.archive.embedded.failure import QueryError

# chdb would take a lone word for a SELECT, and a server answers that it can't read it.
_DEFAULTS: Final = {"implicit_select": "0"}


class _Answer(Protocol):
    def bytes(self) -> bytes: ...
    def rows_read(self) -> int: ...


class _Handle(Protocol):
    def query(self, text: bytes, output: str, /, *, params: Mapping[str, str]) -> _Answer: ...
    def send_query(self, text: bytes, output: str, /, *, params: Mapping[str, str]) -> object: ...
    def streaming_fetch_result(self, stream: object, /) -> _Answer: ...
    def set_progress_callback(self, callback: Callable[[dict[str, int]], None] | None, /) -> None: ...
    def close(self) -> None: ...


class EngineUnavailableError(Exception):
    """The engine can't be loaded, or can't open its folder."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds for one statement and ends with it.

    Attributes:
        database: the current database.
        settings: ClickHouse's settings by name, each in its text form.
        parameters: the values of `{name:Type}`, each in ClickHouse's escaped text form.
        mark: what the statement is found by among those that run; the engine gives each an id but doesn't tell it.
    """

    database: str
    settings: Mapping[str, str]
    parameters: Mapping[str, str]
    mark: str


def refuse_second_process(folder: Path) -> None:
    """See whether another process holds the folder, before the engine takes its time to find out and says so at length.

    Raises:
        EngineUnavailableError: one does.
    """
    status = folder / "status"
    if not status.exists():
        return
    with status.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EngineUnavailableError(f"another process holds {folder}") from None


def connect(folder: Path) -> _Handle:
    """Connect to the engine over a folder; the process's first connection starts it, its last one stops it.

    Raises:
        EngineUnavailableError: chdb isn't installed or the folder can't be opened.
    """
    try:
        chdb = import_module("chdb._chdb")
    except ImportError as error:
        reason = "the package chdb-core-lite is missing: install broad-announce[embedded]"
        raise EngineUnavailableError(reason) from error
    try:
        return cast("_Handle", chdb.connect(str(folder)))
    except RuntimeError as error:
        raise EngineUnavailableError(f"the engine can't open {folder}: {error}") from error


class Connection:
    """A connection that serves one statement; a context manager, which must end before the next statement begins.

    Settings are set on it with SET, as the strings that the client gave, so that the engine judges names and values.
    The connection has its own session, costs half a millisecond and is closed afterwards: nothing can leak into the
    next statement. The other ways are worse: a SETTINGS clause has its place at a different end of each statement, and
    some have none; on a shared connection, SET needs a second SET afterwards that knows what was before, also when
    the statement failed.

    Args:
        folder: the engine's.
        scope: what holds for the statement.
        progress: is kept up to date with what the engine has read and written.
    """

    def __init__(self, folder: Path, scope: Scope, progress: dict[str, int]) -> None:
        self._scope = scope
        self._progress = progress
        self._handle = connect(folder)

    def __enter__(self) -> Self:
        settings = {**_DEFAULTS, "log_comment": self._scope.mark, **self._scope.settings}
        assignments = ", ".join(f"{quote(name, '`')} = {quote(value)}" for name, value in settings.items())
        try:
            if self._scope.database:
                self._command(f"USE {quote(self._scope.database, '`')}")
            self._command(f"SET {assignments}")
        except BaseException:
            self._handle.close()
            raise
        self._handle.set_progress_callback(self._progress.update)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.set_progress_callback(None)
        self._handle.close()

    def run(self, text: bytes, output: str) -> bytes:
        """Run a statement to its end and return its answer in the output format.

        Raises:
            QueryError: it failed.
        """
        with _engine_errors():
            return self._handle.query(text, output, params=self._scope.parameters).bytes()

    def select(self, text: bytes, output: str) -> Iterator[bytes]:
        """Run a SELECT and yield its answer in pieces, each of which is about a block of rows.

        Raises:
            QueryError: it failed.
        """
        with _engine_errors():
            stream = self._handle.send_query(text, output, params=self._scope.parameters)
        while True:
            with _engine_errors():
                answer = self._handle.streaming_fetch_result(stream)
            yield answer.bytes()
            if not answer.rows_read():
                # The piece without rows is the last. It may hold the totals, or the header of an empty answer.
                return

    def _command(self, text: str) -> None:
        with _engine_errors():
            self._handle.query(text.encode(errors="surrogateescape"), "Null", params={})


@contextmanager
def _engine_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise QueryError.of_engine(str(error)) from error


def kill(folder: Path, mark: str | None) -> None:
    """Cancel the statements with this mark, or all; they end with an error soon after."""
    condition = "1" if mark is None else f"Settings['log_comment'] = {quote(mark)}"
    handle = connect(folder)
    try:
        handle.query(f"KILL QUERY WHERE {condition} ASYNC".encode(), "Null", params={})
    finally:
        handle.close()


def quote(text: str, mark: str = "'") -> str:
    """Write a text as a literal, or with backticks as an identifier."""
    return mark + text.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark
