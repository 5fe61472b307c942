from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

_SHOWN_REPEATS = 100
_SUCCESSES = range(200, 300)


class Tally(msgspec.Struct, gc=False):
    """How often one target was called, and how often with success."""

    target: str
    calls: int = 0
    accepted: int = 0


class Entry(msgspec.Struct, gc=False):
    """One call that arrived.

    Kept small, since there may be millions: the garbage collector doesn't look at it (`gc=False`; nothing
    here refers back to it), the target's text is shared by its entries, and the wall time is computed.

    Attributes:
        ordinal: Counts the calls from 1, and goes on when the journal is cleared.
        mono_us: When, on the machine's monotonic clock, in microseconds.
        tally: Its target.
        key: What makes two calls the same message; empty for a dry run.
        status: The HTTP status that it got; 0: none (yet).
        fault: What was done to the answer.
        verdict: What was found about its signature.
        detail: Request line, raw headers and body, while it is among the newest.
    """

    ordinal: int
    mono_us: int
    tally: Tally
    key: str
    status: int
    fault: str = ""
    verdict: str = ""
    detail: tuple[str, tuple[tuple[bytes, bytes], ...], bytes] | None = None

    @property
    def accepted(self) -> bool:
        """Whether the provider took the message."""
        return self.status in _SUCCESSES and bool(self.key)


class Counts:
    """Sums over entries, kept as they come and go, so that a summary costs the same however many there are."""

    def __init__(self) -> None:
        self.total = 0
        self.accepted = 0
        self.by_status: Counter[int] = Counter()
        self.by_verdict: Counter[str] = Counter()
        self.targets: dict[str, Tally] = {}
        self.keys: dict[str, int] = {}
        self._repeated_keys = 0
        self._repeated_targets = 0

    def tally(self, target: str) -> Tally:
        """The target's tally, made when it is new."""
        tally = self.targets.get(target)
        if tally is None:
            tally = self.targets[target] = Tally(target)
        return tally

    def add(self, entry: Entry) -> None:
        """Counts an entry."""
        self.total += 1
        entry.tally.calls += 1
        self.by_status[entry.status] += 1
        if entry.verdict:
            self.by_verdict[entry.verdict] += 1
        if entry.accepted:
            self._accept(entry)

    def settle(self, entry: Entry, status: int) -> None:
        """Gives a counted entry, which had no status, the one that it got."""
        self.by_status[entry.status] -= 1
        self.by_status[status] += 1
        entry.status = status
        if entry.accepted:
            self._accept(entry)

    def forget(self, entry: Entry) -> None:
        """Takes an entry out of what is kept by target and by key; the totals keep it."""
        tally = entry.tally
        tally.calls -= 1
        if entry.accepted:
            tally.accepted -= 1
            self._repeated_targets -= tally.accepted == 1
            times = self.keys[entry.key] = self.keys[entry.key] - 1
            self._repeated_keys -= times == 1
            if not times:
                del self.keys[entry.key]
        if not tally.calls:
            del self.targets[tally.target]

    def repeats(self) -> Iterator[tuple[str, int]]:
        """The keys that were accepted more than once, and how often."""
        return ((key, times) for key, times in self.keys.items() if times > 1)

    def summary(self) -> dict[str, Any]:
        """The sums, with the first hundred of the keys that were accepted more than once."""
        accepted_kept = sum(self.keys.values())
        shown = self.repeats() if self._repeated_keys else iter(())
        return {
            "total": self.total,
            "accepted": self.accepted,
            "by_status": {str(status): n for status, n in sorted(self.by_status.items()) if n},
            **({"by_verdict": dict(self.by_verdict)} if self.by_verdict else {}),
            "targets": len(self.targets),
            "targets_repeated": self._repeated_targets,
            "ids": len(self.keys),
            "ids_repeated": self._repeated_keys,
            "repeats": accepted_kept - len(self.keys),
            "repeated_ids": dict(pair for pair, _ in zip(shown, range(_SHOWN_REPEATS), strict=False)),
        }

    def _accept(self, entry: Entry) -> None:
        self.accepted += 1
        entry.tally.accepted += 1
        self._repeated_targets += entry.tally.accepted == 2  # noqa: PLR2004  from once to more than once
        times = self.keys[entry.key] = self.keys.get(entry.key, 0) + 1
        self._repeated_keys += times == 2  # noqa: PLR2004  likewise
