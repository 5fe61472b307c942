"""Waiting for what is to come about, and failing with what was seen last."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Seen = TypeVar("Seen")


async def eventually(see: Callable[[], Awaitable[Seen]], expected: Seen, within_s: float = 15.0) -> None:
    """Look again and again until what is seen is what is expected."""
    seen = await see()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while seen != expected:
        assert loop.time() < deadline, f"after {within_s} s: saw {seen!r}, expected {expected!r}"
        await asyncio.sleep(0.02)
        seen = await see()
