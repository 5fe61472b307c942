"""Holding a channel back while its configuration is at fault: its deliveries wait, none is given up."""

import asyncio
import logging
from typing import Final

from announce.delivery.metrics import PAUSED
from announce.observe.health import Health
from announce.observe.logging import event
from announce.runtime.backoff import Backoff

log = logging.getLogger(__name__)

DEPENDENCY: Final = "channel"


class Pause:
    """Open while the channel works. A fault closes it; after a while one delivery goes through as a probe."""

    def __init__(self, channel: str, health: Health) -> None:
        self._channel = channel
        self._health = health
        self._open = asyncio.Event()
        self._backoff = Backoff(first_s=1.0, cap_s=30.0)
        self._probing = False
        self._open.set()
        health.up(DEPENDENCY)

    async def passage(self) -> None:
        """Wait until a call may be made; while the channel is on probation, let one through at a time."""
        while not self._open.is_set():
            await self._open.wait()
        if self._probing:
            self._open.clear()

    def fault(self, detail: str) -> float:
        """Hear that the configuration is at fault; return the seconds after which the delivery is to try again."""
        wait_s = self._backoff.next()
        if not self._probing:
            event(log, logging.ERROR, "channel paused", channel=self._channel, error=detail)
        self._probing = True
        self._open.clear()
        self._health.down(DEPENDENCY, detail)
        PAUSED.labels(self._channel).set(1)
        asyncio.get_running_loop().call_later(wait_s, self._open.set)
        return wait_s

    def working(self) -> None:
        """Hear that a call's outcome had nothing to do with the configuration."""
        if self._probing:
            event(log, logging.INFO, "channel resumed", channel=self._channel)
            self._probing = False
            self._backoff.reset()
            self._health.up(DEPENDENCY)
            PAUSED.labels(self._channel).set(0)
            self._open.set()
