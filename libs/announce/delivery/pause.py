"""Holding a channel back while nothing can go through it: its deliveries wait, and none is given up."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from announce.delivery.metrics import PAUSED, PauseCause
from announce.delivery.outage import Outage
from announce.observe.health import Health
from announce.observe.logging import event
from announce.runtime.backoff import Backoff

log = logging.getLogger(__name__)

DEPENDENCY: Final = "channel"


class Pause:
    """Open while the channel works. When it doesn't, one delivery after the other goes through as a probe."""

    def __init__(self, channel: str, health: Health, outage: Outage) -> None:
        self._channel = channel
        self._health = health
        self._suspected = outage
        self._others_wait = False
        self._stopping = False
        self._open = asyncio.Event()
        self._open.set()
        self._backoff = Backoff(first_s=1.0, cap_s=30.0)
        self._cause: PauseCause | None = None
        self._timer: asyncio.TimerHandle | None = None
        health.up(DEPENDENCY)

    @property
    def outage(self) -> bool:
        """Whether the channel is paused because its provider seems to be out."""
        return self._cause is PauseCause.OUTAGE

    @property
    def fetching(self) -> bool:
        """Whether to take more out of the stream."""
        return self._cause is None or (self.outage and self._others_wait)

    def waiting(self, companies: Iterable[str]) -> None:
        """Hear whose deliveries wait: an outage may be some companies' own, and then the others' are to be found."""
        self._others_wait = not all(map(self._suspected.affects, companies))

    async def passage(self, company_id: str) -> bool:
        """Wait until a call may be made for this company; while the channel is paused, let one through at a time.

        Returns:
            False when the service stops, so that no call is to be made.
        """
        while not (self._open.is_set() or self._spared(company_id)):
            await self._open.wait()
        if self._cause is not None and not self._spared(company_id):
            if self._stopping:
                return False
            self._open.clear()
        return True

    def stop(self) -> None:
        """Let nobody wait any more: the service stops."""
        self._stopping = True
        self._open.set()

    def unused(self) -> None:
        """Give a passage back without having made a call."""
        if self._timer is None:
            self._open.set()

    def misconfigured(self, detail: str) -> float:
        """Hear that our configuration is at fault; return the seconds after which the delivery is to try again."""
        return self._hold(PauseCause.CONFIGURATION, detail)

    def unanswered(self, company_id: str, delivery_id: UUID, began_s: float, detail: str) -> float | None:
        """Hear of a call that got no answer, begun at `began_s` of the loop's clock.

        Returns:
            The seconds after which the delivery is to try again, or None when it is this delivery's own failure.
        """
        out = self._suspected.failed(company_id, delivery_id, began_s, asyncio.get_running_loop().time())
        if self._cause is None and not out:
            return None
        return self._hold(self._cause or PauseCause.OUTAGE, detail)

    def answered(self) -> None:
        """Hear that the provider answered, and that its answer had nothing to do with our configuration."""
        self._suspected.answered(asyncio.get_running_loop().time())
        if self._cause is None:
            return
        event(log, logging.INFO, "channel resumed", channel=self._channel, cause=self._cause)
        self._set(None)
        self._health.up(DEPENDENCY)
        self._backoff.reset()
        if self._timer is not None:
            self._timer.cancel()
        self._probe()

    def _spared(self, company_id: str) -> bool:
        # What looks like an outage may be the targets of some companies: others find out for themselves.
        return self.outage and not self._suspected.affects(company_id)

    def _hold(self, cause: PauseCause, detail: str) -> float:
        loop = asyncio.get_running_loop()
        if self._cause is not cause:
            event(log, logging.ERROR, "channel paused", channel=self._channel, cause=cause, error=detail)
            self._set(cause)
        self._health.down(DEPENDENCY, f"{cause}: {detail}")
        # Calls that were under way together fail together; only a probe's failure makes the next wait longer.
        if self._timer is None:
            if not self._stopping:
                self._open.clear()
            self._timer = loop.call_later(self._backoff.next(), self._probe)
        return max(self._timer.when() - loop.time(), 0.0)

    def _probe(self) -> None:
        self._timer = None
        self._open.set()

    def _set(self, cause: PauseCause | None) -> None:
        self._cause = cause
        self._others_wait = False
        for each in PauseCause:
            PAUSED.labels(self._channel, each).set(each is cause)
