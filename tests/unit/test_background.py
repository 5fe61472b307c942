import asyncio

import pytest

from announce.runtime.background import background


class OddError(Exception):
    pass


async def fail() -> None:
    raise OddError


async def test_what_the_block_raises_comes_out_as_it_is_and_the_rest_ends() -> None:
    ended = asyncio.Event()

    async def go_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def block() -> None:
        async with background(go_on()):
            await asyncio.sleep(0)
            raise OddError

    with pytest.raises(OddError):
        await block()
    assert ended.is_set()


async def test_a_coroutine_that_fails_ends_the_block() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with background(fail()):
            await asyncio.Event().wait()
    assert caught.group_contains(OddError)
