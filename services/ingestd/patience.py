"""Going on where a store was away, for as long as it takes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from announce.bus.connection import BusUnavailable
from announce.observe.logging import event
from announce.runtime.backoff import Backoff
from announce.store.database import DatabaseUnavailable

log = logging.getLogger(__name__)

Result = TypeVar("Result")

LONGEST_WAIT_S: Final = 2.0


async def insist(what: str, attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Return what the attempt returns, made again and again while the database or JetStream is away.

    Args:
        what: names it in the log.
        attempt: must bear being made twice; what was under way during an outage may have been done.
    """
    backoff = Backoff(cap_s=LONGEST_WAIT_S)
    while True:
        try:
            return await attempt()
        except (DatabaseUnavailable, BusUnavailable) as error:
            event(log, logging.DEBUG, "waiting", what=what, error=str(error))
        await asyncio.sleep(backoff.next())
