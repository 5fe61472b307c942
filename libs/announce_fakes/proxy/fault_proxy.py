import asyncio
import math
import socket
from collections.abc import Callable
from typing import Literal, Self

from announce_fakes.proxy.link import Link, Stream
from announce_fakes.proxy.weather import Counters, Direction, Weather
from announce_fakes.tcp import send_reset

_BACKLOG = 1024


class FaultProxy:
    """A TCP proxy whose faults are switched while connections are open.

    Used as an async context manager it listens between entering and leaving. Faults add up; `resume` ends all.

        async with FaultProxy("127.0.0.1", nats_port) as proxy:
            client = await connect("127.0.0.1", proxy.port)
            proxy.stall("up")
            ...
            await proxy.wait_until(lambda counters: counters.held_up > 0)
            proxy.cut()
            await proxy.resume()

    Args:
        upstream_host: The server's address.
        upstream_port: The server's port.
        host: The address to listen on.
        port: The port; 0 takes a free one.
    """

    def __init__(self, upstream_host: str, upstream_port: int, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._upstream = (upstream_host, upstream_port)
        self.host = host
        self.port = port
        self._weather = Weather()
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listens.

        Raises:
            OSError: The address can't be bound.
        """
        # A second socket, bound but not listening, keeps the port while connections are refused.
        self._reservation = self._bound_socket()
        self.port = self._reservation.getsockname()[1]
        await self._listen()

    async def stop(self) -> None:
        """Cuts every connection, and closes."""
        await self.refuse()
        self._reservation.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def counters(self) -> Counters:
        """What has happened so far."""
        return self._weather.counters

    @property
    def refuses(self) -> bool:
        """Whether new connections are refused."""
        return self._server is None

    async def refuse(self) -> None:
        """Refuses new connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
            # The event loop closes the listening socket in its next round.
            await asyncio.sleep(0)

    def cut(self) -> int:
        """Breaks every open connection with a RST, and gives their number."""
        links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    def stall(self, direction: Direction | Literal["both"] = "both") -> None:
        """Takes bytes and connections, and forwards nothing; `resume` forwards what was held back."""
        self._weather.stall(("up", "down") if direction == "both" else (direction,))

    def slow(self, *, delay_s: float = 0.0, bytes_per_s: float = math.inf) -> None:
        """Forwards each piece after `delay_s` seconds, and each direction of a connection at `bytes_per_s`."""
        self._weather.delay_s = delay_s
        self._weather.bytes_per_s = bytes_per_s

    def drop_replies(self) -> None:
        """Forwards what clients send, and throws away what the server answers."""
        self._weather.drops_replies = True

    async def resume(self) -> None:
        """Ends every fault. A connection whose answers were thrown away is cut: its stream has a hole."""
        self._weather.clear()
        for link in [link for link in self._links if link.torn]:
            link.cut()
        if self._server is None:
            await self._listen()

    async def wait_until(self, reached: Callable[[Counters], bool], timeout_s: float = 10.0) -> None:
        """Returns once `reached(counters)` holds.

        Raises:
            TimeoutError: It didn't within `timeout_s` seconds; the message has the counters.
        """
        try:
            await self._weather.signal.wait_until(lambda: reached(self.counters), timeout_s)
        except TimeoutError:
            raise TimeoutError(f"not reached within {timeout_s} s: {self.counters}") from None

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._bound_socket(), backlog=_BACKLOG)

    def _bound_socket(self) -> socket.socket:
        bound = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self.host, self.port))
        except OSError:
            bound.close()
            raise
        return bound

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: Stream) -> None:
        self._weather.count("accepted")
        try:
            server = await asyncio.open_connection(*self._upstream)
        except OSError:
            self._weather.count("upstream_failures")
            send_reset(client[1].transport)
            return
        link = Link(client, server, self._weather)
        self._links.add(link)
        self._weather.count("active")
        try:
            await link.run()
        finally:
            self._links.discard(link)
            self._weather.count("active", -1)
