import asyncio
from collections.abc import Callable


class Signal:
    """Wakes those who wait for a state to be reached, as soon as it is reached.

    Whoever changes the state calls `notify`; whoever waits gives a predicate over it. Nothing polls.
    """

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def notify(self) -> None:
        """Ends each wait whose predicate now holds."""
        for future, reached in list(self._waiters.items()):
            if not future.done() and reached():
                future.set_result(None)

    async def wait_until(self, reached: Callable[[], bool], timeout_s: float) -> None:
        """Returns once `reached()` holds.

        Raises:
            TimeoutError: It didn't hold within `timeout_s` seconds.
        """
        if reached():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[future] = reached
        try:
            async with asyncio.timeout(timeout_s):
                await future
        finally:
            del self._waiters[future]

    def __bool__(self) -> bool:
        return bool(self._waiters)
