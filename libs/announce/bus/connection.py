"""The connection to NATS, kept alive for as long as the service runs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError

from announce.observe.health import Health
from announce.observe.logging import event, scrub
from announce.runtime.background import background
from announce.runtime.backoff import Backoff

log = logging.getLogger(__name__)

DEPENDENCY: Final = "nats"
RECONNECT_WAIT_S: Final = 0.25
CONNECT_TIMEOUT_S: Final = 2.0
# While NATS is away nothing may gather in the client, where a crash would lose it: publishing fails instead.
NO_PENDING_BYTES: Final = -1


class BusUnavailable(Exception):  # noqa: N818 - it says what is the case
    """NATS or JetStream can't do this now; trying again later makes sense. If `unsure`, it may have done it."""

    def __init__(self, detail: str, *, unsure: bool = False) -> None:
        super().__init__(detail)
        self.unsure = unsure


class Connection:
    """Hands out the live client. nats-py gives up for good on some errors; then a new client takes its place."""

    def __init__(self, url: str, health: Health | None = None) -> None:
        self._servers = url.split(",")
        self._health = health or Health(DEPENDENCY)
        self._client: Client | None = None
        self._connected = asyncio.Event()
        self._closed = asyncio.Event()
        self.lost = asyncio.Event()
        """Ends with the present connection; the next one brings a new event."""

    @property
    def client(self) -> Client:
        """The live client.

        Raises:
            BusUnavailable: there is none now.
        """
        if self._client is None or not self._client.is_connected:
            raise BusUnavailable("not connected to NATS")
        return self._client

    async def connected(self) -> Client:
        """Wait for a live client."""
        while self._client is None or not self._client.is_connected:
            await self._connected.wait()
        return self._client

    def inbox(self) -> str:
        """Make a fresh inbox that this connection's user may read."""
        return self.client.new_inbox()

    async def keep(self) -> None:
        """Connect, and connect anew whenever the client library has closed the connection. Ends by cancellation."""
        backoff = Backoff()
        while True:
            self._closed.clear()
            try:
                await self._connect()
            except (OSError, NatsError, TimeoutError) as error:
                self._lost(f"can't connect: {scrub(str(error) or type(error).__name__)}")
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            await self._closed.wait()
            await asyncio.sleep(backoff.next())

    async def close(self) -> None:
        """Send what is still to be sent, then close."""
        if self._client is not None and self._client.is_connected:
            # drain() can hang for its whole timeout on a pull subscription; flush and close can't.
            with suppress(NatsError, TimeoutError):
                await self._client.flush(timeout=2)
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> None:
        self._client = await nats.connect(
            servers=self._servers,
            inbox_prefix=_inbox_prefix(self._servers[0]),
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT_S,
            connect_timeout=CONNECT_TIMEOUT_S,
            pending_size=NO_PENDING_BYTES,
            ping_interval=10,
            max_outstanding_pings=2,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_connected,
            closed_cb=self._on_closed,
        )
        await self._on_connected()

    async def _on_connected(self) -> None:
        self._health.up(DEPENDENCY)
        self.lost = asyncio.Event()
        self._connected.set()
        event(log, logging.INFO, "nats connected")

    async def _on_disconnected(self) -> None:
        self._lost("disconnected")

    async def _on_closed(self) -> None:
        self._lost("connection closed")
        self._closed.set()

    async def _on_error(self, error: Exception) -> None:
        event(log, logging.WARNING, "nats error", error=scrub(str(error) or type(error).__name__))

    def _lost(self, reason: str) -> None:
        self._connected.clear()
        self.lost.set()
        self._health.down(DEPENDENCY, reason)
        event(log, logging.WARNING, "nats unavailable", reason=reason)


@asynccontextmanager
async def connection(url: str, health: Health | None = None) -> AsyncIterator[Connection]:
    """Keep a connection for the length of the block; it need not be up yet when the block begins."""
    kept = Connection(url, health)
    async with background(kept.keep()):
        try:
            yield kept
        finally:
            await kept.close()


def _inbox_prefix(server: str) -> str:
    """Each user may read its own inboxes alone, so these bear its name."""
    user = urlsplit(server).username
    return f"_INBOX_{user}" if user else "_INBOX"
