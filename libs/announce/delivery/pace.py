"""Keeping to what a provider takes: so many calls a second in all, and so many to one target."""

import asyncio
from dataclasses import dataclass
from typing import Final

from announce.bus.pace import SharedPace

ALL: Final = ""
"""The key of the channel as a whole; no target's address is empty."""
BURST: Final = 0.5
"""So many seconds' turns may come at once."""
MARGIN: Final = 1.1
"""Calls that leave in step don't arrive in step, and providers count arrivals."""
LIMITED_TARGETS: Final = 5
"""So many targets, of several companies, that are limited one after the other look like a limited channel."""
MAX_HOLD_ALL_S: Final = 60.0
MAX_QUEUES: Final = 10_000
MAX_AHEAD_S: Final = 30.0
"""A target whose turn is further away than this has its delivery wait in the stream."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider takes before it answers 429: calls a second in all, and seconds between two to one target."""

    per_s: float
    target_interval_s: float


class Pace:
    """Gives out turns, in step with every other replica of the service.

    A delivery needs its target's turn once, however often it is tried: a try that failed sent nothing. The channel's
    turn is needed for each call.
    """

    def __init__(self, limits: Limits, shared: SharedPace) -> None:
        self._shared = shared
        self._interval_s = 1 / limits.per_s
        self._burst = max(int(limits.per_s * BURST), 1)
        self._target_interval_s = limits.target_interval_s * MARGIN
        self._queues: dict[str, float] = {}
        self._limited: dict[str, str] = {}

    async def turn(self) -> float:
        """Reserve the channel's next turn; return the seconds until then."""
        return await self._shared.reserve(ALL, self._interval_s, self._burst)

    async def target_turn(self, address: str) -> float:
        """Take the target's turn if it is now and return 0, else return the seconds after which to ask again."""
        wait_s = await self._shared.reserve(address, self._target_interval_s, 1, within_s=0)
        if wait_s <= 0:
            return 0.0
        # Those of this process that wait for one target don't all ask at the same time.
        now = asyncio.get_running_loop().time()
        place = max(now + wait_s, self._queues.get(address, 0.0) + self._target_interval_s)
        self._queues[address] = place
        if len(self._queues) > MAX_QUEUES:
            self._queues = {each: at for each, at in self._queues.items() if at > now}
        return place - now

    def sent(self) -> None:
        """Hear that the provider took a message: it isn't the channel that is limited."""
        self._limited.clear()

    async def limited(self, company_id: str, address: str, retry_after_s: float) -> None:
        """Hear of a 429: leave the target alone for so long, or all of them if the channel as a whole seems limited.

        Targets of one company are no sign of that, however many: they must not hold up the others.
        """
        await self._shared.hold(address, retry_after_s)
        self._limited[address] = company_id
        if len(self._limited) >= LIMITED_TARGETS and len(set(self._limited.values())) > 1:
            self._limited.clear()
            # However long these targets are limited: it is only a guess that all are.
            await self._shared.hold(ALL, min(retry_after_s, MAX_HOLD_ALL_S))
