import asyncio
from collections.abc import Sequence

import pytest

from announce.runtime.batcher import Batcher


class Desk:
    """Serves batches only when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Semaphore(0)

    async def serve(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.gate.acquire()
        return [item * 10 for item in items]


async def test_an_item_alone_is_served_at_once_and_what_gathers_meanwhile_goes_together() -> None:
    desk = Desk()
    batcher = Batcher(desk.serve, max_items=100)
    futures = [batcher.submit(0)]
    await asyncio.sleep(0)
    futures += [batcher.submit(number) for number in range(1, 5)]
    desk.gate.release()
    desk.gate.release()
    assert await asyncio.gather(*futures) == [0, 10, 20, 30, 40]
    assert desk.batches == [[0], [1, 2, 3, 4]]


async def test_batches_are_bounded_in_size_and_in_number() -> None:
    desk = Desk()
    batcher = Batcher(desk.serve, max_items=3, max_running=2)
    futures = [batcher.submit(number) for number in range(10)]
    await asyncio.sleep(0)
    assert desk.batches == [[0, 1, 2], [3, 4, 5]]
    for _ in range(4):
        desk.gate.release()
    assert await asyncio.gather(*futures) == [number * 10 for number in range(10)]


async def test_every_caller_of_a_failing_batch_hears_of_it_and_the_next_batch_is_served() -> None:
    calls = 0

    async def serve(items: Sequence[int]) -> Sequence[int]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError("gone")
        return items

    batcher = Batcher(serve, max_items=10)
    failed = [batcher.submit(1), batcher.submit(2)]
    for future in failed:
        with pytest.raises(ConnectionError):
            await future
    assert await batcher.submit(3) == 3


async def test_a_caller_that_has_gone_does_not_disturb_the_others() -> None:
    desk = Desk()
    batcher = Batcher(desk.serve, max_items=10)
    gone, stays = batcher.submit(1), batcher.submit(2)
    await asyncio.sleep(0)
    gone.cancel()
    desk.gate.release()
    assert await stays == 20
