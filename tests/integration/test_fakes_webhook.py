import hashlib
import hmac
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession

from announce_fakes import FakeWebhook

BODY = b'{"id": "whd_7",  "type": "email.sent"}'


@pytest.fixture
async def receiver() -> AsyncIterator[FakeWebhook]:
    async with FakeWebhook() as receiver:
        yield receiver


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession(headers={"Content-Type": "application/json"}) as session:
        yield session


def signed(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    now = str(int(time.time()))
    macs = [hmac.new(key.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest() for key in secrets]
    return {"X-MailHub-Signature": f"t={now}," + ",".join(f"v1={mac}" for mac in macs)}


async def post(session: ClientSession, url: str, headers: dict[str, str] | None = None) -> int:
    async with session.post(url, data=BODY, headers=headers) as answer:
        await answer.read()
        return answer.status


async def test_any_path_takes_a_post_and_keeps_it_byte_for_byte(receiver: FakeWebhook, session: ClientSession) -> None:
    url = f"{receiver.url}/hooks/a?x=1"
    assert await post(session, url, {"X-MailHub-Event": "email.sent", "X-MailHub-Delivery": "whd_7"}) == 200
    (entry,) = receiver.received()
    assert (entry["target"], entry["path"], entry["id"]) == ("/hooks/a", "/hooks/a?x=1", "whd_7")
    assert entry["body"] == BODY.decode()
    assert entry["message"] == {"id": "whd_7", "type": "email.sent"}
    assert entry["headers"]["X-MailHub-Event"] == "email.sent"
    assert "verdict" not in entry


async def test_only_a_post_is_a_delivery(receiver: FakeWebhook, session: ClientSession) -> None:
    async with session.get(f"{receiver.url}/hooks/a") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    assert receiver.received() == []


async def test_verdicts_are_recorded_and_change_no_answer(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(target="/a", secret="one")
    receiver.control(secret="for all")
    state = receiver.control(target="/a", secret="two")
    assert state["secrets"] == {"/a": 2, "*": 1}
    assert "one" not in str(state)
    for path, headers in [
        ("/a", signed("one")),
        ("/a", signed("two")),
        ("/a", signed("old", "one")),
        ("/a", signed("for all")),
        ("/b", signed("for all")),
        ("/b", {}),
        ("/b", {"X-MailHub-Signature": "v1=00"}),
    ]:
        assert await post(session, receiver.url + path, headers) == 200
    verdicts = [entry["verdict"] for entry in receiver.received()]
    assert verdicts == ["valid", "valid", "valid", "mismatch", "valid", "missing", "malformed"]
    assert receiver.summary()["by_verdict"] == {"valid": 4, "mismatch": 1, "missing": 1, "malformed": 1}
    receiver.control(clear=True, clear_received=True)
    assert await post(session, f"{receiver.url}/a") == 200
    assert "verdict" not in receiver.received()[0]


async def test_the_same_delivery_again_is_a_repeat(receiver: FakeWebhook, session: ClientSession) -> None:
    for _ in range(2):
        await post(session, f"{receiver.url}/a", {"X-MailHub-Delivery": "whd_1"})
        await post(session, f"{receiver.url}/b")
    summary = receiver.summary()
    assert (summary["ids"], summary["ids_repeated"], summary["targets_repeated"]) == (2, 2, 2)


async def test_paths_fail_apart_with_any_status(receiver: FakeWebhook, session: ClientSession) -> None:
    receiver.control(target="/gone", status=410)
    receiver.control(target="/empty", status=204)
    receiver.control(target="/busy*", retry_after=3)
    receiver.control(target="/moved", status=302, location="http://127.0.0.1:1/")
    assert await post(session, f"{receiver.url}/gone") == 410
    assert await post(session, f"{receiver.url}/empty") == 204
    assert await post(session, f"{receiver.url}/busy/1") == 429
    assert await post(session, f"{receiver.url}/other") == 200
    async with session.post(f"{receiver.url}/moved", data=BODY, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, "http://127.0.0.1:1/")
    assert receiver.summary()["accepted"] == 2
