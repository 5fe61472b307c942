import asyncio
from uuid import uuid4

import pytest

from announce.delivery.outage import Outage
from announce.delivery.pause import DEPENDENCY, Pause
from announce.observe.health import Health


@pytest.fixture
def health() -> Health:
    return Health(DEPENDENCY)


@pytest.fixture
def pause(health: Health) -> Pause:
    return Pause("fcm", health, Outage(3))


async def passes(pause: Pause, company_id: str) -> bool:
    """Tell whether a delivery of this company may go through at once."""
    passage = asyncio.ensure_future(pause.passage(company_id))
    await asyncio.sleep(0)
    done = passage.done() and passage.result()
    passage.cancel()
    return done


def fail(pause: Pause, company_id: str, times: int) -> list[float | None]:
    now = asyncio.get_running_loop().time()
    return [pause.unanswered(company_id, uuid4(), now, "HTTP 503") for _ in range(times)]


async def test_a_fault_of_our_own_lets_nobody_through_but_a_probe(pause: Pause, health: Health) -> None:
    assert 0 < pause.misconfigured("HTTP 403") <= 1
    assert not pause.fetching
    assert not health.is_up(DEPENDENCY)
    assert not await passes(pause, "acme")
    async with asyncio.timeout(5):
        await pause.passage("acme")
    assert not await passes(pause, "acme")
    assert not await passes(pause, "other")


async def test_an_answer_opens_it_for_all(pause: Pause, health: Health) -> None:
    pause.misconfigured("HTTP 403")
    pause.answered()
    assert pause.fetching
    assert health.is_up(DEPENDENCY)
    assert await passes(pause, "acme")
    assert await passes(pause, "acme")


async def test_a_few_deliveries_that_fail_are_their_own_affair(pause: Pause, health: Health) -> None:
    assert fail(pause, "acme", 2) == [None, None]
    assert await passes(pause, "acme")
    assert health.is_up(DEPENDENCY)


async def test_an_outage_holds_those_that_it_has_met_and_spares_others(pause: Pause, health: Health) -> None:
    assert fail(pause, "acme", 3)[2] is not None
    assert not await passes(pause, "acme")
    assert not health.is_up(DEPENDENCY)
    for _ in range(2):
        assert await passes(pause, "other")
    assert fail(pause, "other", 1)[0] is not None
    assert not await passes(pause, "other")


async def test_a_probe_that_gets_no_answer_leaves_a_misconfigured_channel_paused(pause: Pause) -> None:
    pause.misconfigured("HTTP 403")
    async with asyncio.timeout(5):
        await pause.passage("acme")
    (wait_s,) = fail(pause, "acme", 1)
    assert wait_s is not None
    assert not pause.fetching


async def test_a_passage_that_was_not_used_is_the_next_one_s(pause: Pause) -> None:
    pause.misconfigured("HTTP 403")
    async with asyncio.timeout(5):
        await pause.passage("acme")
    pause.unused()
    assert await passes(pause, "acme")


async def test_an_outage_stops_fetching_unless_others_wait(pause: Pause) -> None:
    fail(pause, "acme", 3)
    assert not pause.fetching
    pause.waiting(["acme", "other"])
    assert pause.fetching
    fail(pause, "other", 1)
    pause.waiting(["acme", "other"])
    assert not pause.fetching
    pause.answered()
    assert pause.fetching


async def test_when_the_service_stops_nobody_waits_and_no_call_is_made(pause: Pause) -> None:
    pause.misconfigured("HTTP 403")
    waiting = asyncio.ensure_future(pause.passage("acme"))
    await asyncio.sleep(0)
    pause.stop()
    assert await waiting is False
    assert await pause.passage("acme") is False
