"""Which deliveries a worker holds, and for how long those wait in the stream that it has no place for.

A channel has one queue, first in, first out: a company's 50,000 messages stand before everybody else's. So a worker
looks past them. A company may hold its share of the worker's places; what comes beyond that is parked, handed back to
the stream until about its turn, and the next one is looked at. A company that is alone isn't in anybody's way, and what
it has beyond its share stays where it is.
"""

import math
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from announce.bus.consumer import Delivery
from announce.bus.streams import company_of
from announce.delivery.lanes import has_room

MIN_PARKED_S: Final = 0.25
MAX_PARKED_S: Final = 900.0
MIN_RATE: Final = 200.0
"""So many a second come back even while nothing moves: bounds what looking at them again and again costs."""
FIRST_RATE: Final = 1000.0
"""Taken for a company's rate before it has been measured. Too early costs another look, too late leaves hands idle."""
WINDOW_S: Final = 0.5
DECAY: Final = 0.9
EAGERNESS: Final = 2.0
"""They come back at so many times the pace that was measured: at that pace itself it could never grow."""
TOGETHER_S: Final = 0.1
KEPT_S: Final = 60.0
"""So long a company's rate is remembered after the last of what was parked."""
COMPANY_S: Final = 600.0
"""So long a company isn't alone after another one was seen."""
MAX_REMEMBERED: Final = 200_000


class Queue:
    """The part of one company's queue that is parked, as far as this process knows."""

    def __init__(self, now: float) -> None:
        self._end_at = now
        self._window_at = now
        self._settled = 0
        self._rate = FIRST_RATE

    def settled(self, now: float) -> bool:
        """Count a delivery that has ended; tell whether the company is still one that has deliveries parked."""
        self._settled += 1
        return now < self._end_at + KEPT_S

    def park(self, now: float) -> float:
        """Queue one more; return the seconds until its turn."""
        if (passed_s := now - self._window_at) >= WINDOW_S:
            # Looking past the others slows everything down, so a low pace isn't believed at once; none at all is.
            before = self._rate * DECAY if self._settled else 0.0
            self._rate = max(self._settled / passed_s * EAGERNESS, before, MIN_RATE)
            self._settled, self._window_at = 0, now
        self._end_at = max(self._end_at, now) + 1 / self._rate
        return min(max(self._end_at - now, MIN_PARKED_S), MAX_PARKED_S)


class Parking:
    """Decides for each message that arrives whether it is held or parked.

    Args:
        places: how many deliveries are held at once.
        greed: see `has_room`.
        clock: monotonic seconds.
    """

    def __init__(self, places: int, greed: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self._places = places
        self._free = places
        self._greed = greed
        self._clock = clock
        self._taken: Counter[str] = Counter()
        self._queues: dict[str, Queue] = {}
        self._untouched: OrderedDict[int, int] = OrderedDict()
        self._company_id: str | None = None
        self._others_until = -math.inf

    @property
    def limit(self) -> int:
        """How many deliveries are to be held or asked for."""
        return max(self._places * self._greed // (1 + self._greed), 1) if self._alone else self._places

    @property
    def crowded(self) -> bool:
        """Whether a company that seems to be alone has its share, and others could stand behind it."""
        return self._alone and self._places - self._free >= self.limit

    def waiting(self, companies: Iterable[str]) -> None:
        """Hear whose deliveries wait in the stream."""
        for company_id in companies:
            self._see(company_id)

    def admit(self, delivery: Delivery) -> float | None:
        """Hold a delivery and return None, or return the seconds for which it is to be parked."""
        company_id = company_of(delivery.subject)
        self._see(company_id)
        if self._alone or has_room(self._taken[company_id], self._free, self._greed):
            delivery.when_settled(self._settled)
            self._taken[company_id] += 1
            self._free -= 1
            return None
        if self.untouched(delivery):
            self._remember(delivery)
        now = self._clock()
        # Spread, and rather early than late: what was parked within one second must not come back within one.
        wait_s = self._queues.setdefault(company_id, Queue(now)).park(now) * random.uniform(0.75, 1.0)
        # nats-server looks through all that is parked whenever one of them is due, so let some be due together.
        return (now + wait_s) // TOGETHER_S * TOGETHER_S + TOGETHER_S - now

    def untouched(self, delivery: Delivery) -> bool:
        """Tell whether nobody can have worked on this delivery yet. Ask once: the answer is forgotten."""
        return self._untouched.pop(delivery.origin.stream_seq, 0) + 1 == delivery.origin.num_delivered

    @property
    def _alone(self) -> bool:
        return self._clock() > self._others_until

    def _see(self, company_id: str) -> None:
        if self._company_id not in {company_id, None}:
            self._others_until = self._clock() + COMPANY_S
        self._company_id = company_id

    def _settled(self, delivery: Delivery) -> None:
        company_id = company_of(delivery.subject)
        self._free += 1
        self._taken[company_id] -= 1
        if not self._taken[company_id]:
            del self._taken[company_id]
        queue = self._queues.get(company_id)
        if queue is not None and not queue.settled(self._clock()):
            del self._queues[company_id]

    def _remember(self, delivery: Delivery) -> None:
        self._untouched[delivery.origin.stream_seq] = delivery.origin.num_delivered
        if len(self._untouched) > MAX_REMEMBERED:
            self._untouched.popitem(last=False)
