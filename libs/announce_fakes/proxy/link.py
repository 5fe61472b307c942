import asyncio

from announce_fakes.proxy.weather import Direction, Weather
from announce_fakes.tcp import send_reset

_PIECE = 65536

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """One client's connection and the server's that belongs to it.

    Attributes:
        torn: Whether bytes are missing from what the client got, so that it can't go on.
    """

    def __init__(self, client: Stream, server: Stream, weather: Weather) -> None:
        self._client = client
        self._server = server
        self._weather = weather
        self._task: asyncio.Task[None] | None = None
        self.torn = False

    async def run(self) -> None:
        """Forwards until both sides have ended, or one breaks, or the link is cut."""
        self._task = asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(self._client[0], self._server[1], "up"))
                pumps.create_task(self._pump(self._server[0], self._client[1], "down"))
        except* OSError:
            self._abort()
        finally:
            self._client[1].close()
            self._server[1].close()

    def cut(self) -> None:
        """Breaks both connections with a RST."""
        self._weather.count("cut")
        self._abort()
        if self._task is not None:
            self._task.cancel()

    def _abort(self) -> None:
        for _, writer in (self._client, self._server):
            send_reset(writer.transport)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: Direction) -> None:
        weather = self._weather
        while piece := await source.read(self._piece()):
            await weather.hold(direction, len(piece))
            if direction == "down" and weather.drops_replies:
                self.torn = True
                weather.count("dropped", len(piece))
                continue
            if wait_s := weather.delay_s + len(piece) / weather.bytes_per_s:
                await asyncio.sleep(wait_s)
            sink.write(piece)
            await sink.drain()
            weather.count(f"bytes_{direction}", len(piece))
        await weather.hold(direction, 0)
        if not (direction == "down" and self.torn):
            sink.write_eof()

    def _piece(self) -> int:
        """How much to read at once: no more than a tenth of a second's worth."""
        return max(1, int(min(_PIECE, self._weather.bytes_per_s / 10)))
