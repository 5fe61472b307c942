import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from announce.bus.connection import Connection, connection
from announce.bus.pace import SharedPace, _State
from announce.bus.streams import PACE
from announce_stack import nats
from tests.servers import Nats

KEY = "telegram to 123456789"
PATIENT_S = 30.0
"""Nobody decides by himself here, however slow the machine is."""


@asynccontextmanager
async def replicas(nats_server: Nats, number: int) -> AsyncIterator[list[Connection]]:
    async with AsyncExitStack() as stack:
        url = nats_server.url("deliverd_telegram")
        opened = [await stack.enter_async_context(connection(url)) for _ in range(number)]
        for each in opened:
            await each.connected()
        yield opened


def paces(connections: Sequence[Connection], patience_s: float = PATIENT_S) -> list[SharedPace]:
    return [SharedPace(each, "telegram", patience_s) for each in connections]


@asynccontextmanager
async def nats_server_hangs(nats_server: Nats) -> AsyncIterator[None]:
    pid = nats_server.supervisor.running()[nats.NAME].process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_slots_of_one_replica_follow_each_other_by_the_interval(nats_server: Nats) -> None:
    async with replicas(nats_server, 1) as (only,):
        (pace,) = paces([only])
        waits = [await pace.reserve(KEY, 600, 1) for _ in range(5)]
    assert waits == [pytest.approx(600 * place, abs=30) for place in range(5)]
    assert waits[0] == 0


async def test_slots_of_all_replicas_together_are_unique_and_follow_each_other_by_the_interval(
    nats_server: Nats,
) -> None:
    interval_s = 1000.0
    async with replicas(nats_server, 4) as opened:
        begun = time.time()
        each_waits = await asyncio.gather(
            *(asyncio.gather(*(pace.reserve(KEY, interval_s, 1) for _ in range(100))) for pace in paces(opened))
        )
        took_s = time.time() - begun
    waits = sorted(wait for waits in each_waits for wait in waits)
    # Waits count from the moment of each answer, and no two slots are nearer than the interval less that.
    assert took_s < interval_s / 4
    assert [round(wait / interval_s) for wait in waits] == list(range(400))


async def test_one_replica_knows_nothing_of_its_own_when_others_went_before(nats_server: Nats) -> None:
    async with replicas(nats_server, 2) as opened:
        first, second = paces(opened)
        assert await first.reserve(KEY, 1000, 1) == 0
        assert await second.reserve(KEY, 1000, 1) == pytest.approx(1000, abs=30)
        assert await first.reserve(KEY, 1000, 1) == pytest.approx(2000, abs=30)


async def test_what_was_not_used_adds_up_to_a_burst_and_no_more(nats_server: Nats) -> None:
    async with replicas(nats_server, 1) as opened:
        (pace,) = paces(opened)
        waits = [await pace.reserve(KEY, 1000, 3) for _ in range(5)]
    assert waits == [0, 0, 0, pytest.approx(1000, abs=30), pytest.approx(2000, abs=30)]


async def test_several_slots_are_reserved_at_once(nats_server: Nats) -> None:
    async with replicas(nats_server, 1) as opened:
        (pace,) = paces(opened)
        assert await pace.reserve(KEY, 1000, 1, count=5) == 0
        assert await pace.reserve(KEY, 1000, 1) == pytest.approx(5000, abs=30)


async def test_what_is_too_far_away_is_not_reserved(nats_server: Nats) -> None:
    async with replicas(nats_server, 2) as opened:
        first, second = paces(opened)
        assert await first.reserve(KEY, 1000, 1, within_s=0) == 0
        assert await second.reserve(KEY, 1000, 1, within_s=500) == pytest.approx(1000, abs=30)
        assert await second.reserve(KEY, 1000, 1, within_s=1500) == pytest.approx(1000, abs=30)


async def test_nobody_goes_while_a_key_is_held_and_no_burst_follows(nats_server: Nats) -> None:
    async with replicas(nats_server, 2) as opened:
        first, second = paces(opened)
        assert await second.reserve(KEY, 1000, 3) == 0
        await first.hold(KEY, 50_000)
        await first.hold(KEY, 10)  # a shorter one takes nothing back
        waits = [await second.reserve(KEY, 1000, 3) for _ in range(3)]
    assert waits == [pytest.approx(50_000 + 1000 * place, abs=30) for place in range(3)]


async def test_keys_don_t_slow_each_other_and_show_no_address(nats_server: Nats) -> None:
    async with replicas(nats_server, 1) as opened:
        (pace,) = paces(opened)
        assert [await pace.reserve(f"to {chat}", 1000, 1) for chat in (123456789, 987654321)] == [0, 0]
    async with connection(nats_server.url()) as admin:
        context = (await admin.connected()).jetstream()
        subjects = (await context.stream_info(PACE, subjects_filter="$KV.>")).state.subjects or {}
    assert len(subjects) == 2
    assert not any("123456789" in subject or "987654321" in subject for subject in subjects)


async def test_what_is_forgotten_here_is_still_known_there(nats_server: Nats) -> None:
    async with replicas(nats_server, 1) as opened:
        pace = SharedPace(opened[0], "telegram", PATIENT_S, max_keys=2)
        for chat in range(10):
            assert await pace.reserve(f"to {chat}", 1000, 1) == 0
        assert await pace.reserve("to 0", 1000, 1) == pytest.approx(1000, abs=30)
        assert pace.remembered == 2


async def test_each_replica_goes_on_by_itself_while_nats_is_away_and_in_step_again_after(nats_server: Nats) -> None:
    async with replicas(nats_server, 2) as opened:
        first, second = paces(opened)
        assert await first.reserve(KEY, 1000, 1) == 0
        assert await second.reserve(KEY, 1000, 1) == pytest.approx(1000, abs=30)
        nats_server.kill()
        await asyncio.gather(*(asyncio.wait_for(each.lost.wait(), 10) for each in opened))
        waits = [await second.reserve(KEY, 1000, 1) for _ in range(3)]
        assert waits == [pytest.approx(1000 * place, abs=30) for place in (2, 3, 4)]
        await second.hold(KEY, 1)
        nats_server.start()
        await asyncio.gather(*(each.connected() for each in opened))
        assert await second.reserve(KEY, 1000, 1) == pytest.approx(5000, abs=30)
        assert await first.reserve(KEY, 1000, 1) == pytest.approx(6000, abs=30)


async def test_a_server_that_hangs_holds_a_reservation_up_for_no_longer_than_the_patience(nats_server: Nats) -> None:
    async with replicas(nats_server, 1) as opened:
        (pace,) = paces(opened, patience_s=0.3)
        assert await pace.reserve(KEY, 1000, 1) == 0
        async with nats_server_hangs(nats_server):
            begun = time.monotonic()
            waits = await asyncio.gather(*(pace.reserve(KEY, 1000, 1) for _ in range(20)))
            took_s = time.monotonic() - begun
    assert sorted(waits) == [pytest.approx(1000 * place, abs=30) for place in range(1, 21)]
    assert took_s < 5  # twenty times the patience, one after the other, is more


class Gated(SharedPace):
    """Writes only when the test lets it."""

    def __init__(self, bus: Connection) -> None:
        super().__init__(bus, "telegram", PATIENT_S)
        self.gate = asyncio.Semaphore(0)
        self.at_gate = asyncio.Semaphore(0)

    async def _write(self, subject: str, state: _State, seq: int, deadline: float) -> int | None:
        self.at_gate.release()
        await self.gate.acquire()
        return await super()._write(subject, state, seq, deadline)


async def test_a_caller_that_is_cancelled_while_it_answers_others_leaves_them_to_the_next(nats_server: Nats) -> None:
    async with replicas(nats_server, 2) as opened, asyncio.timeout(20):
        pace, (other,) = Gated(opened[0]), paces(opened[1:])
        first, second, third, fourth = (asyncio.create_task(pace.reserve(KEY, 1000, 1)) for _ in range(4))
        await pace.at_gate.acquire()
        pace.gate.release()
        await first
        await pace.at_gate.acquire()  # the second now writes for the third and the fourth too
        second.cancel()
        for _ in range(5):
            pace.gate.release()
        waits = [await first, await third, await fourth, await other.reserve(KEY, 1000, 1)]
        assert second.cancelled()
    assert waits == [pytest.approx(1000 * place, abs=30) for place in (0, 2, 3, 4)]
