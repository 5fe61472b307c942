"""The one HTTP listener of a service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from aiohttp import web
from pydantic import AfterValidator


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port`.

    Raises:
        ValueError: it isn't of that form.
    """
    host, separator, port = address.rpartition(":")
    if not (separator and host and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError("must be host:port")
    return host.strip("[]"), int(port)


def _splittable(address: str) -> str:
    split_address(address)
    return address


ListenAddress = Annotated[str, AfterValidator(_splittable)]
"""A setting that says where to listen, as host:port."""


@asynccontextmanager
async def listening(app: web.Application, address: str, *, grace_s: float) -> AsyncIterator[None]:
    """Serve an application on `host:port`; at the end, let requests under way finish for at most `grace_s`."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=grace_s,
        # Signatures cover the bytes that came, and a limit on a body must not be passed by what it unpacks to.
        auto_decompress=False,
    )
    await runner.setup()
    host, port = split_address(address)
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
