"""A service's life: start, run until a signal comes, stop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

import uvloop

from announce.observe.logging import configure
from announce.runtime.settings import ServiceSettings, load

log = logging.getLogger(__name__)

Serve = Callable[[asyncio.Event], Awaitable[None]]


def run(name: str, serve: Serve) -> NoReturn:
    """Run `serve` until it ends. Its event is set by SIGTERM or SIGINT: it is then to stop within the grace.

    The process ends with 0 after a signal, and with 1 when `serve` fails: then something is wrong that waiting
    doesn't mend, and whoever supervises the process starts it anew.
    """
    configure(name, load(ServiceSettings).log_level)
    try:
        uvloop.run(_until_signalled(serve))
    except Exception:
        log.exception("service failed")
        sys.exit(1)
    log.info("stopped")
    sys.exit(0)


async def _until_signalled(serve: Serve) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    log.info("starting")
    await serve(stopping)
