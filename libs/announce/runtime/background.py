"""Tasks that run beside a block and end with it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


class Tasks:
    """Tasks that nobody waits for. What they raise is logged."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run a coroutine by itself."""
        task = asyncio.create_task(coroutine)
        # The event loop alone holds tasks weakly.
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def finish(self, within_s: float) -> None:
        """Wait for those that are running, but for at most so long."""
        if self._running:
            await asyncio.wait(list(self._running), timeout=within_s)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("task failed", exc_info=error)


@asynccontextmanager
async def background(*coroutines: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run coroutines for the length of the block, then cancel them. If one fails, the block fails.

    What the block itself raises comes out as it is; what a coroutine raises, in a group.
    """
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
            failure = error
        finally:
            for task in tasks:
                task.cancel()
    if failure is not None:
        raise failure
