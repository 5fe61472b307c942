"""Postgres killed, stalled and cut off while rows of a channel's service wait for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from signal import SIGHUP

import pytest

from announce_stack.postgres import NAME
from tests.eventually import eventually
from tests.faults.rig import Rig
from tests.servers import Postgres

pytestmark = pytest.mark.timeout(180)

NUMBER = 100


@asynccontextmanager
async def killed(rig: Rig) -> AsyncIterator[None]:
    await asyncio.to_thread(rig.servers.postgres.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(rig.servers.postgres.start)


@asynccontextmanager
async def stalled(rig: Rig) -> AsyncIterator[None]:
    rig.postgres.stall()
    yield
    await rig.postgres.wait_until(lambda counters: counters.held_up > 0)
    rig.postgres.cut()
    await rig.postgres.resume()


@asynccontextmanager
async def unanswered(rig: Rig) -> AsyncIterator[None]:
    rig.postgres.drop_replies()
    yield
    await rig.postgres.wait_until(lambda counters: counters.dropped > 0)
    await rig.postgres.resume()


FAULTS = (killed, stalled, unanswered)


async def test_rows_wait_while_postgres_is_away(fcm: Rig) -> None:
    async with fcm.service(BA_DELIVERD_CONCURRENCY="400") as service:
        for times, fault in enumerate(FAULTS, 1):
            fcm.provider.control(hang=True)
            await fcm.publish([f"{fault.__name__}_{number}" for number in range(NUMBER)])
            await fcm.provider.wait_for(times * NUMBER)
            async with fault(fcm):
                fcm.provider.control(clear=True)
                answered = float(times * NUMBER)
                await eventually(lambda: service.metric("ba_delivery_attempts_total", status="sent"), answered)
                # Nothing is acknowledged before its row is committed.
                assert await fcm.left() == NUMBER
            assert (await fcm.empty()).sent == times * NUMBER
        await fcm.settled_once(service)
    assert fcm.sends() == dict.fromkeys(fcm.accepted.values(), 1)


def reload(server: Postgres, settings: str) -> None:
    """Have Postgres take these settings, on top of those that it was started with."""
    (server.folder / NAME / "postgresql.auto.conf").write_text(settings)
    server.supervisor.running()[NAME].process.send(SIGHUP)


@asynccontextmanager
async def unfinished_commits(rig: Rig) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """Have Postgres do what a commit asks for, but not finish it: it waits for a replica that there isn't.

    Yields:
        what tells how many commits are being waited for.
    """

    async def unfinished() -> int:
        return len(await rig.rows("SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))

    async def commit() -> None:
        async with rig.servers.store.connection() as connected:
            while True:
                await connected.execute("SELECT pg_logical_emit_message(true, '', '')")

    reload(rig.servers.postgres, "synchronous_standby_names = 'nobody'")
    committing = asyncio.create_task(commit())
    try:
        await eventually(unfinished, 1)
        yield unfinished
    finally:
        reload(rig.servers.postgres, "")
        committing.cancel()
        with suppress(asyncio.CancelledError):
            await committing


async def test_rows_whose_commit_nobody_heard_of_stand_there_once(fcm: Rig) -> None:
    async def committed() -> bool:
        return await fcm.count("sent") > 0

    async with fcm.service() as service:
        async with unfinished_commits(fcm) as unfinished:
            await fcm.publish([f"target_{number}" for number in range(NUMBER)])
            await eventually(unfinished, 2)
            assert not await committed()
            fcm.postgres.stall("down")
        await eventually(committed, expected=True)
        assert await fcm.left() == NUMBER
        fcm.postgres.cut()
        await fcm.postgres.resume()
        assert (await fcm.empty()).sent == NUMBER
        await fcm.settled_once(service)
    assert fcm.sends() == dict.fromkeys(fcm.accepted.values(), 1)
