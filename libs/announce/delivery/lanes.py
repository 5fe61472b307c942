"""Sharing a fixed number of hands fairly between companies."""

import asyncio
from collections import Counter, deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


def has_room(taken: int, free: int, greed: int) -> bool:
    """Tell whether one that has `taken` places may take another of those that are `free`.

    Dynamic thresholds (Choudhury and Hahne, 1998): everybody may hold `greed` times as much as is free. Alone one
    gets greed/(1+greed) of all places, n that want everything get greed/(1+n*greed) each, and something is always left
    for who comes next.
    """
    return taken < greed * free


class Lanes(Generic[Item]):
    """A lane for each company: items go out in turn, one from each lane that has not more than its share of the hands.

    Whoever takes an item occupies a hand until `release`.

    Args:
        hands: how many items may be out at once.
        greed: see `has_room`.
    """

    def __init__(self, hands: int, greed: int = 3) -> None:
        self._free = hands
        self._greed = greed
        self._busy: Counter[str] = Counter()
        self._lanes: dict[str, deque[Item]] = {}
        self._turns: deque[str] = deque()
        self._takers: deque[asyncio.Future[tuple[str, Item]]] = deque()

    def put(self, company_id: str, item: Item) -> None:
        """Add an item at the end of its company's lane."""
        lane = self._lanes.get(company_id)
        if lane is None:
            lane = self._lanes[company_id] = deque()
            self._turns.append(company_id)
        lane.append(item)
        self._hand_out()

    async def take(self) -> tuple[str, Item]:
        """Wait for an item whose turn it is."""
        taker: asyncio.Future[tuple[str, Item]] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._hand_out()
        return await taker

    def release(self, company_id: str) -> None:
        """Give back the hand that an item of this company occupied."""
        self._free += 1
        self._busy[company_id] -= 1
        if not self._busy[company_id]:
            del self._busy[company_id]
        self._hand_out()

    def clear(self) -> list[Item]:
        """Take out everything that waits."""
        waiting = [item for lane in self._lanes.values() for item in lane]
        self._lanes.clear()
        self._turns.clear()
        return waiting

    def _hand_out(self) -> None:
        while self._takers:
            if self._takers[0].done():  # cancelled
                self._takers.popleft()
            elif (company_id := self._next()) is None:
                return
            else:
                self._takers.popleft().set_result((company_id, self._pop(company_id)))

    def _next(self) -> str | None:
        for _ in range(len(self._turns)):
            company_id = self._turns[0]
            self._turns.rotate(-1)
            if has_room(self._busy[company_id], self._free, self._greed):
                return company_id
        return None

    def _pop(self, company_id: str) -> Item:
        self._free -= 1
        self._busy[company_id] += 1
        lane = self._lanes[company_id]
        item = lane.popleft()
        if not lane:
            del self._lanes[company_id]
            self._turns.remove(company_id)
        return item
