"""What every fake does to its answers, over real sockets, shown with the webhook receiver; and its own routes."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, ServerDisconnectedError

from announce_fakes import FakeWebhook


@pytest.fixture
async def receiver() -> AsyncIterator[FakeWebhook]:
    async with FakeWebhook() as receiver:
        yield receiver


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


async def post(session: ClientSession, url: str, body: bytes = b"x") -> tuple[int, bytes]:
    async with session.post(url, data=body) as answer:
        return answer.status, await answer.read()


async def ask(
    session: ClientSession, url: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    async with session.request(method, url, data=body) as answer:
        return answer.status, await answer.json()


async def test_fail_makes_every_call_fail_and_then_none(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(target="/a", status=404)
    await ask(session, f"{receiver.url}/control?fail=1")
    assert [(await post(session, receiver.url + path))[0] for path in ("/a", "/b")] == [500, 500]
    status, state = await ask(session, f"{receiver.url}/control?fail=0")
    assert (status, state["rules"]) == (200, [])
    assert (await post(session, f"{receiver.url}/a"))[0] == 200


async def test_fail_for_one_target_leaves_the_others_alone(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(status=404)
    receiver.control(fail=True, target="/a", times=1)
    assert [(await post(session, receiver.url + path))[0] for path in ("/a", "/b", "/a")] == [500, 404, 404]


async def test_control_takes_a_query_or_json_and_lists_the_rules(receiver: FakeWebhook, session: ClientSession) -> None:
    url = f"{receiver.url}/control"
    await ask(session, f"{url}?status=503&target=/a&times=2")
    _, state = await ask(session, url, "POST", b'{"delay_ms":0.5,"bytes":3}')
    assert state["rules"] == [
        {"id": 1, "target": "/a", "times_left": 2, "status": 503},
        {"id": 2, "target": "*", "delay_ms": 0.5, "bytes": 3},
    ]
    assert await ask(session, url) == (200, state)
    for reset in ("clear=1", "reset_rules=1"):
        await ask(session, f"{url}?status=503")
        _, state = await ask(session, f"{url}?{reset}")
        assert state["rules"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("GET", "/control?stauts=500", None, "stauts"),
        ("GET", "/control?status=1000", None, "status"),
        ("GET", "/control?status=500&status=400", None, "status: given twice"),
        ("POST", "/control?status=500", b'{"status":400}', "status: given twice"),
        ("POST", "/control", b"[1]", "must be a JSON object"),
        ("POST", "/control", b"{", "must be a JSON object"),
        ("GET", "/control?self=1", None, "self"),
        ("GET", "/received?limit=-1", None, "limit"),
        ("GET", "/received?since=x", None, "since"),
        ("GET", "/received?of=all", None, "of"),
        ("GET", "/received?wait_for=1&of=ids&target=/a", None, "target"),
    ],
)
async def test_a_wrong_request_is_a_400_that_names_the_parameter(
    receiver: FakeWebhook, session: ClientSession, method: str, path: str, body: bytes | None, named: str
) -> None:
    status, answer = await ask(session, receiver.url + path, method, body)
    assert status == 400
    assert named in str(answer["error"])
    assert receiver.control()["rules"] == []


async def test_received_lists_sums_waits_and_is_emptied(receiver: FakeWebhook, session: ClientSession) -> None:
    url = f"{receiver.url}/received"
    waiting = asyncio.create_task(ask(session, f"{url}?summary=1&wait_for=3&timeout_s=5"))
    for path in ("/a", "/b", "/b"):
        await post(session, receiver.url + path)
    status, summary = await waiting
    assert (status, summary["total"], summary["targets"]) == (200, 3, 2)
    _, listed = await ask(session, f"{url}?target=/b&limit=1")
    assert [entry["ordinal"] for entry in listed["received"]] == [3]
    _, listed = await ask(session, f"{url}?since=2")
    assert [entry["target"] for entry in listed["received"]] == ["/b"]
    status, answer = await ask(session, f"{url}?wait_for=4&timeout_s=0.01")
    assert (status, answer["error"]) == (408, "4 calls expected, 3 came within 0.01 s")
    assert (await ask(session, url, "DELETE"))[1]["total"] == 0
    await post(session, f"{receiver.url}/a")
    await ask(session, f"{receiver.url}/control?clear_received=1")
    assert (await ask(session, url))[1] == {"received": []}


async def test_a_fake_says_that_it_is_there(receiver: FakeWebhook, session: ClientSession) -> None:
    assert await ask(session, f"{receiver.url}/healthz") == (200, {"status": "ok"})


async def test_a_delay_comes_after_the_call_is_taken(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(delay_ms=60_000, target="/slow")
    receiver.control(delay_ms=50, target="/a")
    began = time.monotonic()
    assert (await post(session, f"{receiver.url}/a"))[0] == 200
    assert time.monotonic() - began >= 0.05
    slow = asyncio.create_task(post(session, f"{receiver.url}/slow"))
    await receiver.wait_for(1, target="/slow", of="accepted")
    slow.cancel()


async def test_a_hanging_call_is_answered_when_its_rule_goes(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(hang=True, times=1)
    hanging = asyncio.create_task(post(session, f"{receiver.url}/a"))
    await receiver.wait_for(1)
    assert receiver.summary()["by_status"] == {"0": 1}
    assert (await post(session, f"{receiver.url}/b"))[0] == 200
    assert not hanging.done()
    receiver.control(clear=True)
    assert (await hanging)[0] == 200
    assert receiver.summary()["by_status"] == {"200": 2}


async def test_a_hanging_call_ends_with_its_client(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(hang=True, target="/a")
    with pytest.raises(TimeoutError):
        await session.post(f"{receiver.url}/a", timeout=ClientTimeout(total=0.05))
    # This request comes after the end of the other's connection, so the server has seen both.
    await post(session, f"{receiver.url}/b")
    receiver.control(clear=True)
    await post(session, f"{receiver.url}/b")
    assert receiver.summary()["by_status"] == {"0": 1, "200": 2}


@pytest.mark.parametrize(("script", "accepted"), [({}, 0), ({"status": 200}, 1)])
async def test_a_reset_breaks_the_connection(
    receiver: FakeWebhook, session: ClientSession, script: dict[str, object], accepted: int
) -> None:
    receiver.control(reset=True, times=1, **script)
    with pytest.raises(ClientConnectionError) as caught:
        await post(session, f"{receiver.url}/a")
    assert not isinstance(caught.value, ServerDisconnectedError)
    (entry,) = receiver.received()
    assert (entry["fault"], receiver.summary()["accepted"]) == ("reset", accepted)
    assert (await post(session, f"{receiver.url}/a"))[0] == 200


async def test_a_dripping_answer_comes_byte_by_byte(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(drip=500, times=1)
    began = time.monotonic()
    assert await post(session, f"{receiver.url}/a") == (200, b'{"received":true}')
    assert time.monotonic() - began >= 17 / 500
    receiver.control(drip=1)
    async with session.post(f"{receiver.url}/b", timeout=ClientTimeout(total=0.1)) as answer:
        assert answer.headers["Content-Length"] == "17"
        with pytest.raises(TimeoutError):
            await answer.read()
    assert receiver.summary()["accepted"] == 2


@pytest.mark.parametrize("size", [0, 1, 65536, 10_000_000])
async def test_an_answer_may_be_of_any_size(receiver: FakeWebhook, session: ClientSession, size: int) -> None:
    receiver.control(bytes=size, status=200)
    status, body = await post(session, f"{receiver.url}/a")
    assert (status, len(body)) == (200, size)


async def test_an_answer_may_be_a_web_page(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(html=True, status=502)
    async with session.post(f"{receiver.url}/a") as answer:
        assert (answer.status, answer.content_type) == (502, "text/html")
        assert b"<html>" in await answer.read()
    assert receiver.summary()["accepted"] == 0


async def test_times_hold_when_calls_come_at_once(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(status=503, delay_ms=20, times=7)
    answers = await asyncio.gather(*(post(session, f"{receiver.url}/{n}") for n in range(20)))
    assert sorted(status for status, _ in answers) == [200] * 13 + [503] * 7


async def test_stopping_lets_go_of_what_hangs(session: ClientSession) -> None:
    async with FakeWebhook() as receiver:
        receiver.control(hang=True)
        hanging = asyncio.create_task(post(session, f"{receiver.url}/a"))
        await receiver.wait_for(1)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert (await asyncio.gather(hanging, return_exceptions=True))[0] is not None


async def test_a_fake_that_is_started_again_keeps_its_port_and_journal(session: ClientSession) -> None:
    receiver = FakeWebhook()
    for number in (1, 2):
        async with receiver:
            assert (await post(session, f"{receiver.url}/a"))[0] == 200
            assert receiver.summary()["total"] == number
        with pytest.raises(ClientConnectionError):
            await post(session, f"{receiver.url}/a")
