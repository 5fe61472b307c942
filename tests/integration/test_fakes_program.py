import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientConnectorError, ClientSession

Start = Callable[..., Awaitable[Process]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[Process] = []

    async def run(module: str, *arguments: object) -> Process:
        command = [sys.executable, "-m", module, *map(str, arguments)]
        process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def first_line(process: Process) -> dict[str, str]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 20)
    urls: dict[str, str] = json.loads(line)
    return urls


async def get(url: str) -> tuple[int, object]:
    async with ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()


async def test_one_program_serves_all_three(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    ports = ("--fcm-port", 0, "--telegram-port", 0, "--webhook-port", 0)
    process = await start("announce_fakes", *ports, "--service-account", file, "--telegram-token", "7:own")
    urls = await first_line(process)
    assert list(urls) == ["fcm", "telegram", "webhook"]
    for url in urls.values():
        assert await get(f"{url}/healthz") == (200, {"status": "ok"})
    assert json.loads(file.read_bytes())["token_uri"] == urls["fcm"] + "/token"
    assert (await get(f"{urls['telegram']}/bot7:own/getMe"))[0] == 200

    hanging = asyncio.create_task(get(f"{urls['webhook']}/received?wait_for=1"))
    await get(f"{urls['webhook']}/healthz")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 5) == 0
    await asyncio.gather(hanging, return_exceptions=True)
    assert process.stderr is not None
    assert await process.stderr.read() == b""


async def test_a_fake_is_started_only_when_its_port_is_given(start: Start) -> None:
    process = await start("announce_fakes", "--webhook-port", 0)
    assert list(await first_line(process)) == ["webhook"]
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 5) == 0


async def test_wrong_arguments_end_it_with_one_clear_line(start: Start) -> None:
    cases = {
        "at least one of": (),
        "needs --service-account": ("--fcm-port", 0),
        "no service account's key file": ("--fcm-port", 0, "--service-account", "/dev/null"),
        "announce_fakes: ": ("--webhook-port", 0, "--host", "192.0.2.1"),
    }
    processes = [await start("announce_fakes", *arguments) for arguments in cases.values()]
    for said, process in zip(cases, processes, strict=True):
        _, errors = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode != 0
        assert said in errors.decode().splitlines()[-1]
        assert "Traceback" not in errors.decode()


async def test_the_proxy_is_a_program_too(start: Start) -> None:
    fakes = await start("announce_fakes", "--webhook-port", 0)
    upstream = (await first_line(fakes))["webhook"].removeprefix("http://")
    proxy = await start("announce_fakes.proxy", "--upstream", upstream)
    addresses = await first_line(proxy)
    through = f"http://{addresses['listen']}/healthz"
    assert await get(through) == (200, {"status": "ok"})
    await get(f"{addresses['control']}/control?mode=refuse")
    with pytest.raises(ClientConnectorError, match="Connect call failed"):
        await get(through)
    await get(f"{addresses['control']}/control?mode=pass")
    assert await get(through) == (200, {"status": "ok"})
    proxy.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(proxy.wait(), 5) == 0


async def test_the_proxy_wants_a_whole_address(start: Start) -> None:
    process = await start("announce_fakes.proxy", "--upstream", "nowhere")
    _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert "must be HOST:PORT, not 'nowhere'" in errors.decode()
