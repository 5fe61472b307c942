from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import ClientSession

from announce_fakes import FakeTelegram, ScriptError

Answer = tuple[int, dict[str, Any]]


class Client:
    def __init__(self, telegram: FakeTelegram, session: ClientSession) -> None:
        self.telegram = telegram
        self.session = session
        self.url = f"{telegram.url}/bot{telegram.token}/sendMessage"
        self.headers: Mapping[str, str] = {}

    async def send(self, chat_id: object = 42, text: object = "hello", **more: object) -> Answer:
        return await self.post({"chat_id": chat_id, "text": text, **more})

    async def post(self, body: dict[str, object]) -> Answer:
        fields = {name: value for name, value in body.items() if value is not None}
        async with self.session.post(self.url, json=fields) as answer:
            self.headers = answer.headers
            return answer.status, await answer.json()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with FakeTelegram() as telegram, ClientSession() as session:
        yield Client(telegram, session)


def refused(status: int, description: str, **parameters: object) -> Answer:
    body: dict[str, object] = {"ok": False, "error_code": status, "description": description}
    return status, body | ({"parameters": parameters} if parameters else {})


async def test_a_message_is_taken_and_shown(client: Client) -> None:
    status, answer = await client.send(42, "<b>Fire</b> &amp; smoke", parse_mode="HTML", message_thread_id=7)
    assert status == 200
    assert answer["ok"] is True
    result = answer["result"]
    assert result["text"] == "Fire & smoke"
    assert result["chat"] == {"id": 42, "first_name": "Fake", "type": "private"}
    assert result["message_thread_id"] == 7
    assert {"message_id", "date", "from"} <= result.keys()
    (entry,) = client.telegram.received()
    assert (entry["target"], entry["status"]) == ("42", 200)
    assert entry["message"]["text"] == "<b>Fire</b> &amp; smoke"
    assert client.telegram.token not in str(entry)


@pytest.mark.parametrize(
    ("chat_id", "kind"),
    [(42, "private"), ("42", "private"), (-5, "group"), (-1001234567890, "supergroup"), ("@fire_alerts", "channel")],
)
async def test_the_kind_of_chat_follows_its_id(client: Client, chat_id: object, kind: str) -> None:
    _, answer = await client.send(chat_id)
    assert answer["result"]["chat"]["type"] == kind


async def test_forms_and_queries_are_taken_as_well(client: Client) -> None:
    fields = {"chat_id": "42", "text": "a + b"}
    async with client.session.get(client.url, params=fields) as answer:
        assert answer.status == 200
    async with client.session.post(client.url, data=fields) as answer:
        assert answer.status == 200
    assert [entry["message"] for entry in client.telegram.received()] == [fields, fields]
    assert client.telegram.summary()["ids_repeated"] == 1


async def test_a_null_counts_as_left_out(client: Client) -> None:
    body = b'{"chat_id":null,"text":"x"}'
    async with client.session.post(client.url, data=body, headers={"Content-Type": "application/json"}) as answer:
        assert (answer.status, await answer.json()) == refused(400, "Bad Request: chat_id is empty")


async def test_a_message_is_known_by_its_header_or_its_text(client: Client) -> None:
    await client.send(1, "x")
    await client.send(1, "x")
    await client.send(1, "y")
    await client.send(2, "x")
    client.session.headers["X-BA-Delivery-Id"] = "d"
    await client.send(3, "x")
    summary = client.telegram.summary()
    assert (summary["ids"], summary["ids_repeated"], summary["repeats"]) == (4, 1, 1)
    assert client.telegram.received()[-1]["id"] == "d"


@pytest.mark.parametrize(
    ("fields", "description"),
    [
        ({"chat_id": None}, "chat_id is empty"),
        ({"chat_id": ""}, "chat_id is empty"),
        ({"chat_id": "somebody"}, "chat not found"),
        ({"chat_id": 0}, "chat not found"),
        ({"text": None}, "message text is empty"),
        ({"text": ""}, "message text is empty"),
        ({"text": " \n"}, "text must be non-empty"),
        ({"text": "<b></b>", "parse_mode": "HTML"}, "text must be non-empty"),
        ({"text": "x" * 4097}, "message is too long"),
        (
            {"text": "<b>x", "parse_mode": "HTML"},
            "can't parse entities: Can't find end tag corresponding to start tag \"b\"",
        ),
        (
            {"text": "a <c> b", "parse_mode": "html"},
            'can\'t parse entities: Unsupported start tag "c" at byte offset 2',
        ),
        ({"text": "x", "parse_mode": "MarkdownV2"}, "unsupported parse_mode"),
    ],
)
async def test_what_telegram_refuses(client: Client, fields: dict[str, object], description: str) -> None:
    answer = await client.post({"chat_id": 42, "text": "hello", **fields})
    assert answer == refused(400, f"Bad Request: {description}")


async def test_length_is_counted_after_parsing_in_code_points(client: Client) -> None:
    assert (await client.send(text="<b>" + "&lt;" * 4096 + "</b>", parse_mode="HTML"))[0] == 200
    assert (await client.send(text="<b>" + "&lt;" * 4097 + "</b>", parse_mode="HTML"))[0] == 400
    assert (await client.send(text="🔥" * 4096))[0] == 200
    assert (await client.send(text="<c>"))[0] == 200


async def test_wrong_tokens_and_paths(client: Client) -> None:
    good, base = client.url, client.telegram.url
    client.url = f"{base}/bot1:wrong/sendMessage"
    assert await client.send() == refused(401, "Unauthorized")
    client.url = f"{base}/bot/sendMessage"
    assert await client.send() == refused(401, "Unauthorized")
    client.url = f"{base}/sendMessage"
    assert await client.send() == refused(404, "Not Found")
    client.url = good.replace("sendMessage", "sendRubbish")
    assert await client.send() == refused(404, "Not Found: method not found")
    client.url = good.replace("sendMessage", "SENDMESSAGE")
    assert (await client.send())[0] == 200
    async with client.session.get(good.replace("sendMessage", "getMe")) as answer:
        assert (await answer.json())["result"]["is_bot"] is True
    async with client.session.post(good, data=b"{", headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ({"status": 403}, refused(403, "Forbidden: bot was blocked by the user")),
        ({"status": 400}, refused(400, "Bad Request: chat not found")),
        ({"status": 500}, refused(500, "Internal Server Error: restart")),
        ({"status": 504}, refused(504, "Gateway Timeout")),
        ({"error_code": "Forbidden: user is deactivated"}, refused(403, "Forbidden: user is deactivated")),
        ({"retry_after": 5}, refused(429, "Too Many Requests: retry after 5", retry_after=5)),
        ({"status": 429}, refused(429, "Too Many Requests: retry after 1", retry_after=1)),
        (
            {"migrate_to_chat_id": -1001},
            refused(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-1001),
        ),
    ],
)
async def test_faults_come_with_telegrams_bodies(client: Client, script: dict[str, object], answer: Answer) -> None:
    client.telegram.control(target=42, **script)
    assert await client.send(42) == answer
    assert (await client.send(43))[0] == 200
    if answer[0] == 429:
        assert client.telegram.received()[0]["status"] == 429


async def test_a_429_says_when_in_its_header_too(client: Client) -> None:
    client.telegram.control(retry_after=5)
    await client.send()
    assert client.headers["Retry-After"] == "5"


async def test_a_description_of_unknown_kind_needs_a_status(client: Client) -> None:
    with pytest.raises(ScriptError, match="error_code: `blocked` needs a status"):
        client.telegram.control(error_code="blocked")
    client.telegram.control(error_code="blocked", status=403)
    assert await client.send() == refused(403, "blocked")


async def test_the_rate_limit_is_per_chat_and_per_bot(client: Client) -> None:
    client.telegram.control(rate_limit=True, chat_per_s=0.001, bot_per_s=3)
    assert (await client.send(1))[0] == 200
    status, answer = await client.send(1)
    assert (status, answer["parameters"]) == (429, {"retry_after": 1000})
    assert client.headers["Retry-After"] == "1000"
    assert (await client.send(2))[0] == 200
    assert (await client.send(3))[0] == 200
    assert (await client.send(4))[0] == 429
    assert client.telegram.control()["rate_limit"] == {"chat_per_s": 0.001, "bot_per_s": 3.0}
    client.telegram.control(rate_limit=False)
    assert (await client.send(1))[0] == 200


async def test_rates_without_a_limit_are_refused(client: Client) -> None:
    with pytest.raises(ScriptError, match="rate_limit"):
        client.telegram.control(chat_per_s=1)
