"""Starts the embedded ClickHouse server as the program that it is, and speaks plain HTTP to it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

COMMAND = (sys.executable, "-m", "announce.archive.embedded")
DEADLINE_S = 30


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class EmbeddedServer:
    """A server over a folder, on a port that the kernel chose; a context manager that ends it whatever happens."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self._environment = environment
        self._log = folder.with_name(f"{folder.name}.log")
        self.start()

    def start(self) -> None:
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "--path", str(self.folder), "--port", "0"],
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        wait_until(lambda: bool(self._events("listening")))
        self.port: int = self._events("listening")[0]["port"]

    def _events(self, name: str) -> list[dict[str, Any]]:
        assert self.process.poll() is None, self.log
        # The last line may be on its way still.
        events = map(json.loads, self.log.split("\n")[:-1])
        return [event for event in events if event["event"] == name]

    @property
    def log(self) -> str:
        """What it wrote since it was started last."""
        return self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def peak_mib(self) -> int:
        """Read the most memory that it had since this was asked last."""
        process = Path("/proc") / str(self.process.pid)
        peak = next(line for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM"))
        (process / "clear_refs").write_text("5")  # the peak starts over from what it has now
        return int(peak.split()[1]) >> 10

    @contextmanager
    def sent(self, sql: str, **fields: str | int) -> Iterator[HTTPConnection]:
        """POST a statement; the connection breaks off at the end of the block."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)) as connection:
            connection.request("POST", f"/?{urlencode(fields)}", sql)
            yield connection

    @contextmanager
    def reading(self, sql: str, **fields: str | int) -> Iterator[HTTPResponse]:
        """POST a statement and read its answer as it comes; the connection breaks off at the end of the block."""
        with self.sent(sql, **fields) as connection, connection.getresponse() as answer:
            yield answer

    def get(self, path: str) -> Reply:
        return self._send("GET", f"/{path}", b"", {})

    def post(
        self, body: str | bytes = b"", headers: Mapping[str, str] | None = None, /, **fields: str | int | bytes
    ) -> Reply:
        """POST a body, with fields in the URL."""
        # Any body of curl's has this name; the server is to take it for no form.
        given = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return self._send("POST", f"/?{urlencode(fields)}", body.encode() if isinstance(body, str) else body, given)

    def _send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)) as connection:
            connection.request(method, path, body, {**headers})
            with connection.getresponse() as answer:
                return Reply(answer.status, answer.headers, answer.read())

    def ask(self, sql: str, /, **fields: str | int) -> str:
        """Run a statement that works; return its answer, in tab-separated values if it says nothing else."""
        reply = self.post(sql, **fields)
        assert reply.status == 200, reply.text
        return reply.text.removesuffix("\n")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
