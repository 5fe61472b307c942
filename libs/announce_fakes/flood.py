import time

_PRUNE_ABOVE = 100_000


class Pace:
    """A token bucket per name, kept as the time at which it would be full again (GCRA).

    Args:
        per_s: Tokens that come back in a second.
        burst: Tokens that a full bucket holds.
    """

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self._tolerance_s = (burst - 1) / per_s
        self._full_at: dict[str, float] = {}

    def wait_s(self, name: str) -> float:
        """Seconds until the bucket has a token; 0 when it has one."""
        return max(0.0, self._full_at.get(name, 0.0) - time.monotonic() - self._tolerance_s)

    def take(self, name: str) -> None:
        """Takes a token."""
        now = time.monotonic()
        if len(self._full_at) > _PRUNE_ABOVE:
            self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        self._full_at[name] = max(now, self._full_at.get(name, 0.0)) + 1 / self.per_s
