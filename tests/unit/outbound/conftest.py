import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Services run on uvloop, whose errors differ from asyncio's in their details."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
