"""The one HTTP listener of a service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port`.

    Raises:
        ValueError: it isn't of that form.
    """
    host, separator, port = address.rpartition(":")
    if not (separator and host and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError("must be host:port")
    return host.strip("[]"), int(port)


@asynccontextmanager
async def listening(app: web.Application, address: str, *, grace_s: float) -> AsyncIterator[None]:
    """Serve an application on `host:port`; at the end, let requests under way finish for at most `grace_s`."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=grace_s)
    await runner.setup()
    host, port = split_address(address)
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
