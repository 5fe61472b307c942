import asyncio
import time
from collections.abc import AsyncIterator
from typing import Literal

import pytest
from aiohttp import ClientSession

from announce_fakes import FakeWebhook, FaultProxy
from announce_fakes.proxy.control import ProxyControl


class Echo:
    """A server that sends back what it gets, and remembers it."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65536):
                self.got += piece
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.ended.set()
            writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, int]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with server:
        yield echo, server.sockets[0].getsockname()[1]


@pytest.fixture
async def proxy(echo: tuple[Echo, int]) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", echo[1]) as proxy:
        yield proxy


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.reader.readexactly(len(data))


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    yield client
    client.writer.close()


async def test_bytes_pass_both_ways_and_are_counted(proxy: FaultProxy, client: Client) -> None:
    assert await client.say(b"x" * 200_000) == b"x" * 200_000
    await proxy.wait_until(lambda counters: counters.bytes_down == 200_000)
    assert (proxy.counters.bytes_up, proxy.counters.accepted, proxy.counters.active) == (200_000, 1, 1)


async def test_an_end_is_passed_on(proxy: FaultProxy, client: Client, echo: tuple[Echo, int]) -> None:
    client.writer.write(b"last")
    client.writer.write_eof()
    assert await client.reader.read() == b"last"
    await echo[0].ended.wait()
    await proxy.wait_until(lambda counters: counters.active == 0)


async def test_refusing_leaves_open_connections_alone(proxy: FaultProxy, client: Client) -> None:
    await client.say(b"before")
    port = proxy.port
    await proxy.refuse()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
    assert await client.say(b"still") == b"still"
    await proxy.resume()
    assert proxy.port == port
    other = Client(*await asyncio.open_connection("127.0.0.1", port))
    assert await other.say(b"again") == b"again"
    other.writer.close()


async def test_cutting_resets_both_sides(proxy: FaultProxy, client: Client, echo: tuple[Echo, int]) -> None:
    await client.say(b"before")
    assert proxy.cut() == 1
    with pytest.raises(ConnectionResetError):
        await client.reader.read()
    await echo[0].ended.wait()
    await proxy.wait_until(lambda counters: counters.active == 0)
    assert (proxy.counters.cut, proxy.cut()) == (1, 0)


@pytest.mark.parametrize("direction", ["both", "up"])
async def test_a_stall_holds_requests_and_loses_none(
    proxy: FaultProxy, client: Client, echo: tuple[Echo, int], direction: Literal["both", "up"]
) -> None:
    proxy.stall(direction)
    client.writer.write(b"held")
    await proxy.wait_until(lambda counters: counters.held_up == 4)
    assert echo[0].got == b""
    await proxy.resume()
    assert await client.reader.readexactly(4) == b"held"
    assert proxy.counters.held_up == 0


async def test_answers_alone_can_be_stalled(proxy: FaultProxy, client: Client, echo: tuple[Echo, int]) -> None:
    proxy.stall("down")
    client.writer.write(b"asked")
    await proxy.wait_until(lambda counters: counters.held_down == 5)
    assert echo[0].got == b"asked"
    await proxy.resume()
    assert await client.reader.readexactly(5) == b"asked"


async def test_new_connections_are_taken_while_stalled(proxy: FaultProxy) -> None:
    proxy.stall()
    late = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    late.writer.write(b"late")
    await proxy.wait_until(lambda counters: counters.held_up == 4)
    await proxy.resume()
    assert await late.reader.readexactly(4) == b"late"
    late.writer.close()


async def test_dropped_replies_are_lost_after_the_request_arrived(
    proxy: FaultProxy, client: Client, echo: tuple[Echo, int]
) -> None:
    proxy.drop_replies()
    client.writer.write(b"pay")
    await proxy.wait_until(lambda counters: counters.dropped == 3)
    assert echo[0].got == b"pay"
    await proxy.resume()
    with pytest.raises(ConnectionResetError):
        await client.reader.read()


async def test_the_reply_of_a_provider_is_lost_but_its_message_is_counted() -> None:
    async with FakeWebhook() as receiver, ClientSession() as session:
        port = int(receiver.url.rpartition(":")[2])
        async with FaultProxy("127.0.0.1", port) as proxy:
            proxy.drop_replies()
            lost = asyncio.create_task(session.post(f"http://127.0.0.1:{proxy.port}/a", data=b"x"))
            await proxy.wait_until(lambda counters: counters.dropped > 0)
            proxy.cut()
            assert isinstance((await asyncio.gather(lost, return_exceptions=True))[0], OSError)
            assert receiver.summary()["accepted"] == 1


async def test_a_delay_and_a_rate_slow_what_passes(proxy: FaultProxy, client: Client) -> None:
    proxy.slow(delay_s=0.03)
    began = time.monotonic()
    await client.say(b"x")
    assert time.monotonic() - began >= 0.06
    proxy.slow(bytes_per_s=20_000)
    began = time.monotonic()
    await client.say(b"x" * 3000)
    assert time.monotonic() - began >= 0.1


async def test_a_server_that_is_away_breaks_the_connection(echo: tuple[Echo, int]) -> None:
    async with FaultProxy("127.0.0.1", echo[1]) as gone:
        pass
    async with FaultProxy("127.0.0.1", gone.port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert proxy.counters.upstream_failures == 1
        writer.close()


async def test_waiting_in_vain_shows_the_counters(proxy: FaultProxy) -> None:
    with pytest.raises(TimeoutError, match=r"not reached within 0\.01 s: Counters\(accepted=0"):
        await proxy.wait_until(lambda counters: counters.accepted > 0, timeout_s=0.01)


async def test_the_proxy_is_scripted_over_http(proxy: FaultProxy, client: Client) -> None:
    async with ProxyControl(proxy, "127.0.0.1", 0) as control, ClientSession() as session:

        async def ask(path: str) -> tuple[int, dict[str, object]]:
            async with session.get(control.url + path) as answer:
                return answer.status, await answer.json()

        assert (await ask("/control?mode=stall_up"))[0] == 200
        client.writer.write(b"held")
        status, counters = await ask("/counters?wait_for=held_up&at_least=4")
        assert (status, counters["held_up"]) == (200, 4)
        await ask("/control?mode=pass")
        assert await client.reader.readexactly(4) == b"held"
        await ask("/control?mode=refuse")
        assert proxy.refuses
        await ask("/control?mode=drop_replies&delay_ms=1&cut=1")
        with pytest.raises(ConnectionResetError):
            await client.reader.read()
        assert (await ask("/counters?wait_for=active&timeout_s=0.01"))[0] == 408
        assert await ask("/healthz") == (200, {"status": "ok"})
        assert (await ask("/elsewhere"))[0] == 404
        for wrong, named in [
            ("/control?mode=explode", "mode"),
            ("/control?bytes_per_s=0", "bytes_per_s"),
            ("/control?speed=1", "speed"),
            ("/counters?wait_for=love", "wait_for"),
        ]:
            status, answer = await ask(wrong)
            assert status == 400
            assert named in str(answer["error"])
