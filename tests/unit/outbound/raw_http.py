"""A server that says exactly the bytes that a test wants said, and shows the bytes that it was sent."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class RawServer:
    """Reads requests one after another from each connection, and behaves as it is told after each.

    Attributes:
        requests: what arrived, head and body.
        connections: how many connections were opened.
        arrived: set once a request has come.
        closed: set once a client has closed a connection, or a write to it has failed.
    """

    def __init__(self, behave: Behaviour) -> None:
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self.closed = asyncio.Event()
        self._behave = behave

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
                )
                self.requests.append(head + await reader.readexactly(length))
                self.arrived.set()
                await self._behave(reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError, RuntimeError):
            # A write to a connection that is gone is a RuntimeError on uvloop.
            self.closed.set()
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(behave: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    server = RawServer(behave)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(server.serve(reader, writer)))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def says(answer: bytes) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return behave


def says_and_closes(answer: bytes) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        raise ConnectionAbortedError

    return behave


async def stays_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()
    raise ConnectionAbortedError


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Lingering for zero seconds makes closing send RST.
    endpoint: socket.socket = writer.get_extra_info("socket")
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
