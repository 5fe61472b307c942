import asyncio
import itertools
import threading
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

import pytest

from announce.archive.embedded.relay import AbandonedError, Relay

MIB = bytes(1 << 20)


class OddError(Exception):
    pass


def source(relay: Relay, pieces: Iterable[bytes], error: Exception | None = None) -> asyncio.Future[None]:
    """Put pieces from another thread, as the engine does, and end."""

    def put() -> None:
        for piece in pieces:
            relay.put(piece)
        if error is not None:
            raise error

    future = asyncio.get_running_loop().run_in_executor(None, put)
    future.add_done_callback(relay.follow)
    return future


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("pieces", [[], [b""], [b"a", b"", b"bc"], [bytes([n]) * 700_001 for n in range(20)]])
async def test_all_arrives_in_order(tmp_path: Path, pieces: list[bytes], *, whole: bool) -> None:
    with Relay(tmp_path, whole=whole) as relay:
        source(relay, pieces)
        assert b"".join([piece async for piece in relay.pieces()]) == b"".join(pieces)


async def test_an_error_comes_behind_what_was_there_before_it(tmp_path: Path) -> None:
    go_on = threading.Event()

    def pieces() -> Iterable[bytes]:
        yield b"a"
        go_on.wait()
        yield b"b"

    with Relay(tmp_path, whole=False) as relay:
        source(relay, pieces(), OddError())
        taking = relay.pieces()
        assert await anext(taking) == b"a"
        go_on.set()
        assert await anext(taking) == b"b"
        with pytest.raises(OddError):
            await anext(taking)


async def test_an_error_is_all_there_is_when_nothing_was_taken_yet(tmp_path: Path) -> None:
    with Relay(tmp_path, whole=True) as relay:
        source(relay, [b"a"], OddError())
        with pytest.raises(OddError):
            await anext(relay.pieces())


async def test_it_stays_within_its_bound_of_a_slow_client(tmp_path: Path) -> None:
    put = 0

    def pieces() -> Iterable[bytes]:
        nonlocal put
        for _ in range(100):
            put += 1
            yield MIB

    with Relay(tmp_path, whole=False, ahead_bytes=5 << 20) as relay:
        source(relay, pieces())
        taken = 0
        async for piece in relay.pieces():
            taken += len(piece)
            # The last piece let in may reach beyond the bound by its length, and one more waits at the door.
            assert (put << 20) - taken <= (5 << 20) + 2 * len(MIB)
    assert taken == 100 << 20


@pytest.mark.parametrize("whole", [False, True])
async def test_who_puts_into_an_abandoned_relay_learns_of_it(tmp_path: Path, *, whole: bool) -> None:
    with Relay(tmp_path, whole=whole, ahead_bytes=2 << 20) as relay:
        putting = source(relay, itertools.repeat(MIB))
        if not whole:
            async with aclosing(relay.pieces()) as pieces:
                await anext(pieces)
    with pytest.raises(AbandonedError):
        await putting
