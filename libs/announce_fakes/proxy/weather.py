"""What the proxy does to bytes at the moment, and what it has done so far."""

import asyncio
import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from announce_fakes.waiting import Signal

Direction = Literal["up", "down"]


class Counters(msgspec.Struct):
    """What has happened since the start; `up` is from the client to the server.

    Attributes:
        accepted: Connections taken.
        active: Connections open now.
        cut: Connections broken with a RST.
        upstream_failures: Connections for which the server couldn't be reached.
        bytes_up, bytes_down: Bytes forwarded.
        held_up, held_down: Bytes held back now, by a stall.
        dropped: Bytes of answers thrown away.
    """

    accepted: int = 0
    active: int = 0
    cut: int = 0
    upstream_failures: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    held_up: int = 0
    held_down: int = 0
    dropped: int = 0


class Weather:
    """The faults in force, shared by every connection.

    Attributes:
        delay_s: Wait before each piece is forwarded.
        bytes_per_s: Rate of each direction of each connection.
        drops_replies: Whether what the server sends is thrown away.
        counters: What has happened; change it by `count`, which wakes those who wait.
        signal: Wakes those who wait for a counter.
    """

    def __init__(self) -> None:
        self.counters = Counters()
        self.signal = Signal()
        self._open: dict[Direction, asyncio.Event] = {"up": asyncio.Event(), "down": asyncio.Event()}
        self.clear()

    def clear(self) -> None:
        """Lets everything pass."""
        self.delay_s = 0.0
        self.bytes_per_s = math.inf
        self.drops_replies = False
        for gate in self._open.values():
            gate.set()

    def stall(self, directions: Iterable[Direction]) -> None:
        """Holds back what goes in these directions."""
        for direction in directions:
            self._open[direction].clear()

    def count(self, name: str, by: int = 1) -> None:
        """Adds to a counter."""
        setattr(self.counters, name, getattr(self.counters, name) + by)
        self.signal.notify()

    async def hold(self, direction: Direction, size: int) -> None:
        """Waits while `direction` is stalled."""
        gate = self._open[direction]
        if gate.is_set():
            return
        self.count(f"held_{direction}", size)
        try:
            await gate.wait()
        finally:
            self.count(f"held_{direction}", -size)
