"""A rate that all replicas of a service share.

Each key has one message in a JetStream key-value bucket: when its next slot is free, in microseconds of Unix time (the
"theoretical arrival time" of GCRA), and until when nobody may go. A replica writes the next value on condition that the
one it knows is still the last; when another was faster, it reads and tries again. nats-py's own key-value class reads
with each write, which this needn't. Replicas' clocks must agree about as well as NTP makes them.
"""

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.streams import PACE, pace_subject

MICROSECONDS: Final = 1_000_000
PATIENCE_S: Final = 1.0
AWAY_S: Final = 2.0
"""So long NATS isn't asked after it hasn't answered in time."""
MAX_TRIES: Final = 100
MAX_KEYS: Final = 50_000
WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
NOT_FOUND: Final = "404"


class _State(NamedTuple):
    """In microseconds of Unix time: when the next slot is, and until when nobody may go."""

    next_us: int = 0
    held_us: int = 0

    def later(self, other: "_State") -> "_State":
        return _State(max(self.next_us, other.next_us), max(self.held_us, other.held_us))


class _Step(NamedTuple):
    """What becomes of a state, and how long whoever asked has to wait."""

    state: _State
    wait_us: int


_Change = Callable[[_State, int], _Step]


class _Ask:
    """A change that somebody waits for."""

    __slots__ = ("change", "wait_us")

    def __init__(self, change: _Change) -> None:
        self.change = change
        self.wait_us: int | None = None


class _Key:
    """What this replica knows of a key. Without `seq` it has to be read before it can be written."""

    __slots__ = ("asks", "lock", "lost", "seq", "state", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.lock = asyncio.Lock()
        self.asks: list[_Ask] = []
        self.state = _State()
        self.seq: int | None = None
        self.lost: asyncio.Event | None = None


class _Error(msgspec.Struct):
    err_code: int = 0


class _PubAck(msgspec.Struct):
    seq: int = 0
    error: _Error | None = None


_decode_ack: Final = msgspec.json.Decoder(_PubAck).decode


class SharedPace:
    """Gives out slots in step with every other replica; by itself while NATS can't be asked.

    Args:
        connection: the connection to NATS.
        channel: whose keys these are; its service's user may write no others.
        patience_s: for how long one call may ask NATS before it decides by itself.
        max_keys: how many keys are remembered.
    """

    def __init__(
        self, connection: Connection, channel: str, patience_s: float = PATIENCE_S, max_keys: int = MAX_KEYS
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._patience_s = patience_s
        self._max_keys = max_keys
        self._keys: OrderedDict[str, _Key] = OrderedDict()
        self._away_until = -math.inf

    async def reserve(
        self, key: str, interval_s: float, burst: int, count: int = 1, within_s: float = math.inf
    ) -> float:
        """Reserve a key's next `count` slots; return the seconds to wait before the first of them may be used.

        Slots follow each other by `interval_s`. What wasn't used adds up to `burst` that needn't wait. If the first one
        is more than `within_s` away, nothing is reserved. Never raises for NATS's sake.
        """
        interval_us, tolerance_us = _microseconds(interval_s), _microseconds(interval_s * (burst - 1))
        within_us = math.inf if math.isinf(within_s) else _microseconds(within_s)
        wait_us = await self._change(key, partial(_reserved, interval_us * count, tolerance_us, within_us))
        return wait_us / MICROSECONDS

    async def hold(self, key: str, until_s_from_now: float) -> None:
        """Let nobody go before then; after it the key goes at its rate, without a burst."""
        await self._change(key, partial(_held, _microseconds(until_s_from_now)))

    @property
    def remembered(self) -> int:
        """How many keys this replica remembers."""
        return len(self._keys)

    async def _change(self, key: str, change: _Change) -> int:
        known, ask = self._known(key), _Ask(change)
        deadline = asyncio.get_running_loop().time() + self._patience_s
        known.asks.append(ask)
        # The lock is handed on in order, and whoever has it has asked before those behind, so their deadlines hold.
        async with known.lock:
            if ask.wait_us is None:
                await self._answer(known, deadline)
        return ask.wait_us or 0

    def _known(self, key: str) -> _Key:
        # Addresses are somebody's, and subjects show up in logs and tools.
        name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        known = self._keys.get(name)
        if known is None:
            known = self._keys[name] = _Key(pace_subject(self._channel, name))
            if len(self._keys) > self._max_keys:
                self._keys.popitem(last=False)
        self._keys.move_to_end(name)
        return known

    async def _answer(self, known: _Key, deadline: float) -> None:
        """Answer everybody who is waiting, with one write."""
        asks, known.asks = known.asks, []
        try:
            state = await self._agree(known, asks, deadline)
        except BaseException:
            # Cancelled: the next in line answers them.
            for ask in asks:
                ask.wait_us = None
            known.asks = asks + known.asks
            raise
        if state is None:
            known.seq = None
            known.state = _apply(known.state, asks)

    async def _agree(self, known: _Key, asks: list[_Ask], deadline: float) -> _State | None:
        """Write what the asks make of the key; return None, with nothing answered that counts, if that can't be now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._away_until:
            return None
        try:
            for _ in range(MAX_TRIES):
                if await self._try(known, asks, deadline):
                    return known.state
        except TimeoutError:
            self._away_until = loop.time() + AWAY_S
        except (BusUnavailable, NatsError, msgspec.DecodeError):
            pass
        return None

    async def _try(self, known: _Key, asks: list[_Ask], deadline: float) -> bool:
        # The server that is there now may have an empty bucket, which numbers from 1 again.
        if known.lost is not self._connection.lost:
            known.seq, known.lost = None, self._connection.lost
        if known.seq is None:
            stored, known.seq = await self._read(known.subject, deadline)
            known.state = known.state.later(stored)
        state = _apply(known.state, asks)
        if state == known.state:
            return True
        seq, known.seq = known.seq, None
        known.seq = await self._write(known.subject, state, seq, deadline)
        if known.seq is None:
            return False
        known.state = state
        return True

    async def _read(self, subject: str, deadline: float) -> tuple[_State, int]:
        reply = await self._request(f"$JS.API.DIRECT.GET.{PACE}.{subject}", b"", {}, deadline)
        headers = reply.headers or {}
        if headers.get("Status") == NOT_FOUND:
            return _State(), 0
        if "Nats-Sequence" not in headers:
            raise BusUnavailable("JetStream didn't show the pace")
        return _decode_state(reply.data), int(headers["Nats-Sequence"])

    async def _write(self, subject: str, state: _State, seq: int, deadline: float) -> int | None:
        headers = {"Nats-Expected-Last-Subject-Sequence": str(seq)}
        reply = await self._request(subject, b"%d %d" % state, headers, deadline)
        ack = _decode_ack(reply.data)
        if ack.error is None:
            return ack.seq
        if ack.error.err_code in WRONG_LAST_SEQUENCE:
            return None
        raise BusUnavailable(f"JetStream refused the pace ({ack.error.err_code})")

    async def _request(self, subject: str, payload: bytes, headers: dict[str, str], deadline: float) -> Msg:
        timeout_s = deadline - asyncio.get_running_loop().time()
        if timeout_s <= 0:
            raise TimeoutError
        return await self._connection.client.request(subject, payload, timeout=timeout_s, headers=headers or None)


def _apply(state: _State, asks: list[_Ask]) -> _State:
    now_us = time.time_ns() // 1000
    for ask in asks:
        state, ask.wait_us = ask.change(state, now_us)
    return state


def _reserved(length_us: int, tolerance_us: int, within_us: float, state: _State, now_us: int) -> _Step:
    # As if a hold had used up what had been saved for a burst.
    start_us = max(state.next_us, now_us, state.held_us + tolerance_us)
    wait_us = max(start_us - tolerance_us - now_us, 0)
    return _Step(state if wait_us > within_us else state._replace(next_us=start_us + length_us), wait_us)


def _held(length_us: int, state: _State, now_us: int) -> _Step:
    return _Step(state._replace(held_us=max(state.held_us, now_us + length_us)), 0)


def _decode_state(data: bytes) -> _State:
    try:
        next_us, held_us = map(int, data.split())
    except ValueError:
        return _State()
    return _State(next_us, held_us)


def _microseconds(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
