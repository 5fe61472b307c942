"""How fast each company may send."""

import math
import time
from collections.abc import Callable


class TokenBucket:
    """Fills at `rate_per_s` up to one second's worth.

    It may be overdrawn: a batch of more alerts than it can hold passes when it is full, and is paid for afterwards.
    """

    def __init__(self, rate_per_s: float, clock: Callable[[], float]) -> None:
        self.rate_per_s = rate_per_s
        self._clock = clock
        self._capacity = max(rate_per_s, 1.0)
        self._tokens = self._capacity
        self._filled_at = clock()

    def take(self, count: int) -> float:
        """Take `count` tokens and return 0, or take none and return the seconds until it can be tried again."""
        now = self._clock()
        self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self.rate_per_s)
        self._filled_at = now
        missing = min(count, self._capacity) - self._tokens
        if missing > 0:
            return missing / self.rate_per_s
        self._tokens -= count
        return 0.0


class CompanyRates:
    """A bucket for each company that has sent something."""

    def __init__(self, default_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._default_per_s = default_per_s
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, company_id: str, own_rate_per_s: float | None, count: int) -> int:
        """Count alerts of a company; return 0, or, when they are too many, whole seconds until it may try again."""
        rate_per_s = own_rate_per_s or self._default_per_s
        bucket = self._buckets.get(company_id)
        if bucket is None or bucket.rate_per_s != rate_per_s:
            bucket = self._buckets[company_id] = TokenBucket(rate_per_s, self._clock)
        return math.ceil(bucket.take(count))
