"""Group commit: many callers hand in one item each, and one call serves them together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Serves whatever has gathered as soon as an earlier batch has ended.

    It never lingers: an item that comes alone is served alone and at once, and while batches are under way the next
    one fills up by itself. `serve` gets the items in order and returns one result for each; what it raises, each of
    their callers gets.

    Args:
        serve: does the work for a batch.
        max_items: the largest batch.
        max_running: how many batches may be under way at once.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int,
        max_running: int = 1,
    ) -> None:
        self._serve = serve
        self._max_items = max_items
        self._idle = max_running
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Hand in an item; the future ends with its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._idle:
            self._idle -= 1
            task = asyncio.create_task(self._run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return future

    async def _run(self) -> None:
        try:
            while self._waiting:
                size = min(len(self._waiting), self._max_items)
                await self._serve_batch([self._waiting.popleft() for _ in range(size)])
        finally:
            self._idle += 1

    async def _serve_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._serve([item for item, _ in batch])
        except BaseException as error:  # every caller must hear of it, a cancellation included
            for _, future in batch:
                if not future.done():
                    future.set_exception(_as_failure(error))
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _as_failure(error: BaseException) -> BaseException:
    return error if isinstance(error, Exception) else asyncio.CancelledError()
