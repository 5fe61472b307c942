import asyncio

import pytest

from announce.delivery.lanes import Lanes


async def taken(lanes: Lanes[int]) -> list[tuple[str, int]]:
    """Take all that can be taken now."""
    found: list[tuple[str, int]] = []
    while True:
        take = asyncio.ensure_future(lanes.take())
        await asyncio.sleep(0)
        if not take.done():
            take.cancel()
            return found
        found.append(take.result())


@pytest.mark.parametrize(("hands", "share"), [(1, 1), (4, 3), (256, 192)])
async def test_alone_a_company_gets_three_quarters_of_the_hands(hands: int, share: int) -> None:
    lanes = Lanes[int](hands)
    for number in range(1000):
        lanes.put("acme", number)
    assert await taken(lanes) == [("acme", number) for number in range(share)]


async def test_whoever_comes_next_finds_a_free_hand_when_others_want_everything() -> None:
    lanes = Lanes[int](256)
    for company in range(4):
        for number in range(1000):
            lanes.put(f"company-{company}", number)
        await taken(lanes)
    lanes.put("late", 1)
    assert ("late", 1) in await taken(lanes)


async def test_companies_take_turns() -> None:
    lanes = Lanes[int](100)
    for number in range(50):
        lanes.put("large", number)
    lanes.put("small", 0)
    assert [company for company, _ in (await taken(lanes))[:3]] == ["large", "small", "large"]


async def test_a_released_hand_goes_to_who_waits_for_it() -> None:
    lanes = Lanes[int](4)
    for number in range(5):
        lanes.put("acme", number)
    assert len(await taken(lanes)) == 3
    waiting = asyncio.ensure_future(lanes.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    lanes.release("acme")
    assert await waiting == ("acme", 3)


async def test_one_that_waited_for_an_item_gets_it_when_it_comes() -> None:
    lanes = Lanes[int](4)
    given_up, waiting = asyncio.ensure_future(lanes.take()), asyncio.ensure_future(lanes.take())
    await asyncio.sleep(0)
    given_up.cancel()
    lanes.put("acme", 7)
    assert await waiting == ("acme", 7)


async def test_clear_takes_out_what_waits() -> None:
    lanes = Lanes[int](1)
    for number in range(3):
        lanes.put("acme", number)
    lanes.put("other", 9)
    assert await taken(lanes) == [("acme", 0)]
    assert sorted(lanes.clear()) == [1, 2, 9]
    lanes.release("acme")
    assert await taken(lanes) == []
