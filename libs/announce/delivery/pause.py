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
        self._open.set()
        self._backoff = Backoff(first_s=1.0, cap_s=30.0)
        self._faulty = False
        self._timer: asyncio.TimerHandle | None = None
        health.up(DEPENDENCY)

    async def passage(self) -> None:
        """Wait until a call may be made; while the channel is faulty, let one through at a time."""
        while not self._open.is_set():
            await self._open.wait()
        if self._faulty:
            self._open.clear()

    def unused(self) -> None:
        """Give a passage back without having made a call."""
        if self._timer is None:
            self._open.set()

    def fault(self, detail: str) -> float:
        """Hear that the configuration is at fault; return the seconds after which the delivery is to try again."""
        loop = asyncio.get_running_loop()
        if not self._faulty:
            event(log, logging.ERROR, "channel paused", channel=self._channel, error=detail)
            self._set(faulty=True)
        self._health.down(DEPENDENCY, detail)
        # Calls that were under way together fail together; only a probe's failure makes the next wait longer.
        if self._timer is None:
            self._open.clear()
            self._timer = loop.call_later(self._backoff.next(), self._probe)
        return max(self._timer.when() - loop.time(), 0.0)

    def working(self) -> None:
        """Hear that a call's outcome had nothing to do with the configuration."""
        if not self._faulty:
            return
        event(log, logging.INFO, "channel resumed", channel=self._channel)
        self._set(faulty=False)
        self._health.up(DEPENDENCY)
        self._backoff.reset()
        if self._timer is not None:
            self._timer.cancel()
        self._probe()

    def _probe(self) -> None:
        self._timer = None
        self._open.set()

    def _set(self, *, faulty: bool) -> None:
        self._faulty = faulty
        PAUSED.labels(self._channel).set(int(faulty))
