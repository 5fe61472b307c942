"""Waiting for something that is away."""

import asyncio
import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Waits that double from `first_s` to `cap_s`, each shortened at random by up to half so that crowds spread."""

    first_s: float = 0.1
    cap_s: float = 5.0
    _next_s: float = 0.0

    def next(self) -> float:
        """Return the next wait in seconds."""
        self._next_s = min(max(self._next_s * 2, self.first_s), self.cap_s)
        return self._next_s * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start over, after something worked."""
        self._next_s = 0.0

    async def wait(self, stopping: asyncio.Event) -> bool:
        """Sleep for the next wait, or until `stopping` is set; tell whether to go on."""
        return not await wait_for_event(stopping, self.next())


async def wait_for_event(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event for at most so long; tell whether it is set."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
