"""Keeping retries a bounded share of the traffic, so that a provider in trouble isn't kept there by them."""

from collections.abc import Callable
from time import monotonic
from typing import Final

FREE_S: Final = 10.0
"""For so many seconds the free ones gather."""


class RetryBudget:
    """A bucket of retries: each first try pays in its share, time pays in the free ones, each retry takes one out.

    Each replica bounds the share of its own traffic, and with that the fleet's is bounded.

    Args:
        share: retries for each first try.
        free_per_s: retries a second that need no traffic: below that they can't hurt a provider.
        clock: monotonic seconds.
    """

    def __init__(self, share: float, free_per_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._share = share
        self._free_per_s = free_per_s
        self._clock = clock
        self._most = free_per_s * FREE_S
        self._saved = self._most
        self._at = clock()

    def first_try(self) -> None:
        """Pay in for a delivery's first try."""
        self._saved = min(self._saved + self._share, self._most)

    def retry(self) -> float:
        """Take out a retry; return the seconds by which it has to be put off, 0 when there was one left."""
        now = self._clock()
        self._saved = min(self._saved + (now - self._at) * self._free_per_s, self._most)
        self._at = now
        self._saved -= 1
        return max(-self._saved / self._free_per_s, 0.0)
