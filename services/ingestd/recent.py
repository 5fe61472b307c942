"""What this process has lately taken in."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from announce.store.alerts import AlertKey

CAPACITY: Final = 20_000


class RecentAlerts:
    """The content hashes of the latest alerts, for as long as the dedupe window lasts and room is left."""

    def __init__(self, window_s: float, clock: Callable[[], float] = time.monotonic, capacity: int = CAPACITY) -> None:
        self._window_s = window_s
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[AlertKey, tuple[float, bytes]] = OrderedDict()

    def remember(self, key: AlertKey, content_hash: bytes) -> None:
        """Remember an alert that JetStream holds, and forget the oldest one if need be."""
        self._entries[key] = (self._clock(), content_hash)
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def content_hash(self, key: AlertKey) -> bytes | None:
        """Return the content hash of an alert that was taken in within the window, if it is remembered."""
        entry = self._entries.get(key)
        if entry is None or self._clock() - entry[0] >= self._window_s:
            return None
        return entry[1]
