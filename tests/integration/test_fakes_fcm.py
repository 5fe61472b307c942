import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import ClientSession
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from announce_fakes import FakeFcm, ScriptError
from announce_fakes.service_account import ServiceAccount

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"

Answer = tuple[int, dict[str, Any]]


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fcm") / "account.json"


def load(account: ServiceAccount) -> RSAPrivateKey:
    key = load_pem_private_key(account.private_key.encode(), None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return key


class Client:
    """What a sender does: it gets an access token and sends with it."""

    def __init__(self, fcm: FakeFcm, session: ClientSession) -> None:
        self.fcm = fcm
        self.session = session
        self.token = ""
        self.key = load(fcm.account)

    def claims(self, **other: object) -> dict[str, object]:
        now, account = int(time.time()), self.fcm.account
        ours = {"iss": account.client_email, "aud": account.token_uri, "iat": now, "exp": now + 3600, "scope": SCOPE}
        merged = {**ours, **other}
        return {name: value for name, value in merged.items() if value is not None}

    async def exchange(self, **other: object) -> Answer:
        return await self.exchange_signed(self.key, **other)

    async def exchange_signed(self, key: RSAPrivateKey, /, **other: object) -> Answer:
        assertion = jwt.encode(self.claims(**other), key, "RS256")
        return await self.post_form({"grant_type": GRANT, "assertion": assertion})

    async def post_form(self, form: dict[str, str]) -> Answer:
        async with self.session.post(f"{self.fcm.url}/token", data=form) as answer:
            return answer.status, await answer.json()

    async def sign_in(self) -> None:
        _, answer = await self.exchange()
        self.token = str(answer["access_token"])

    async def post(self, body: object, *, project: str = "demo-project", delivery_id: str = "") -> Answer:
        headers = {"Authorization": f"Bearer {self.token}"}
        if delivery_id:
            headers["X-BA-Delivery-Id"] = delivery_id
        url = f"{self.fcm.url}/v1/projects/{project}/messages:send"
        async with self.session.post(url, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def send(self, target: str = "device-1", **more: object) -> Answer:
        return await self.post({"message": {"token": target, "data": {"delivery_id": f"for-{target}"}, **more}})


@pytest.fixture
async def client(key_file: Path) -> AsyncIterator[Client]:
    async with FakeFcm(credentials_file=key_file) as fcm, ClientSession() as session:
        made = Client(fcm, session)
        await made.sign_in()
        yield made


def error_of(answer: Answer) -> tuple[int, str, list[str]]:
    status, body = answer
    error = body["error"]
    assert error["code"] == status
    assert error["message"]
    details = error.get("details", [])
    return status, str(error["status"]), [detail["errorCode"] for detail in details if detail["@type"] == FCM_ERROR]


def violations_of(answer: Answer) -> list[str]:
    error = answer[1]["error"]
    found = [detail for detail in error["details"] if detail["@type"] == BAD_REQUEST]
    return [violation["field"] for detail in found for violation in detail["fieldViolations"]]


async def test_a_message_is_taken_and_shown(client: Client) -> None:
    status, answer = await client.send(notification={"title": "Fire", "body": "Hall 3"})
    assert status == 200
    assert str(answer["name"]).startswith("projects/demo-project/messages/")
    assert (await client.send())[1]["name"] != answer["name"]
    (first, _) = client.fcm.received()
    assert (first["target"], first["id"], first["status"]) == ("device-1", "for-device-1", 200)
    message = first["message"]
    assert message["message"]["notification"] == {"title": "Fire", "body": "Hall 3"}
    assert "Authorization" not in first["headers"]
    assert client.fcm.summary()["repeats"] == 1


async def test_topics_and_conditions_are_targets_too(client: Client) -> None:
    assert (await client.post({"message": {"topic": "fires"}}))[0] == 200
    assert (await client.post({"message": {"condition": "'a' in topics"}}))[0] == 200
    assert [entry["target"] for entry in client.fcm.received()] == ["fires", "'a' in topics"]


async def test_a_message_is_known_by_its_data_then_its_header_then_its_content(client: Client) -> None:
    await client.post({"message": {"token": "t", "data": {"delivery_id": "d"}}}, delivery_id="h")
    await client.post({"message": {"token": "t"}}, delivery_id="h")
    await client.post({"message": {"token": "t"}})
    await client.post({"message": {"token": "t"}})
    first, second, third, fourth = (entry["id"] for entry in client.fcm.received())
    assert (first, second) == ("d", "h")
    assert third == fourth
    assert client.fcm.summary()["ids_repeated"] == 1


async def test_a_dry_run_is_checked_but_not_counted_as_sent(client: Client) -> None:
    assert (await client.post({"message": {"token": "t"}, "validate_only": True}))[0] == 200
    assert (await client.post({"message": {}, "validate_only": True}))[0] == 400
    summary = client.fcm.summary()
    assert (summary["total"], summary["accepted"], summary["ids"]) == (2, 0, 0)


async def test_a_bad_message_is_blamed_on_its_field(client: Client) -> None:
    answer = await client.post({"message": {"token": "t", "data": {"from": "x"}}})
    assert error_of(answer) == (400, "INVALID_ARGUMENT", ["INVALID_ARGUMENT"])
    assert violations_of(answer) == ["message.data[from]"]
    answer = await client.send(data={"k": "x" * 4096})
    assert violations_of(answer) == ["message"]


async def test_what_does_not_fit_the_shape_has_no_fcm_error(client: Client) -> None:
    answer = await client.post({"message": {"token": "t", "data": {"n": 1}}})
    assert error_of(answer) == (400, "INVALID_ARGUMENT", [])
    assert violations_of(answer) == ["message.data[...]"]
    assert client.fcm.received()[-1]["target"] == "t"
    bodies: list[object] = [[], {"message": []}, {"msg": {}}, "text"]
    for body in bodies:
        assert error_of(await client.post(body))[:2] == (400, "INVALID_ARGUMENT")


async def test_another_project_or_path_is_not_found(client: Client) -> None:
    assert error_of(await client.post({"message": {"token": "t"}}, project="other")) == (404, "NOT_FOUND", [])
    async with client.session.post(f"{client.fcm.url}/v2/send") as answer:
        assert error_of((answer.status, await answer.json())) == (404, "NOT_FOUND", [])


async def test_only_live_access_tokens_are_taken(client: Client) -> None:
    good = client.token
    for bad in ("", "made-up", f"{good}x"):
        client.token = bad
        assert error_of(await client.send()) == (401, "UNAUTHENTICATED", [])
    client.token = good
    assert (await client.send())[0] == 200
    client.fcm.control(revoke_tokens=True)
    assert error_of(await client.send()) == (401, "UNAUTHENTICATED", [])
    await client.sign_in()
    assert (await client.send())[0] == 200


async def test_an_access_token_lives_as_long_as_scripted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.fcm.control(token_lifetime=5)
    status, answer = await client.exchange()
    assert (status, answer["expires_in"], answer["token_type"]) == (200, 5, "Bearer")
    client.token = str(answer["access_token"])
    assert (await client.send())[0] == 200
    real = time.monotonic
    monkeypatch.setattr("announce_fakes.oauth.time.monotonic", lambda: real() + 5)
    assert (await client.send())[0] == 401
    client.fcm.control(clear=True)
    assert (await client.exchange())[1]["expires_in"] == 3599


@pytest.mark.parametrize(
    ("claims", "error", "said"),
    [
        ({"iss": "somebody@else"}, "invalid_grant", "account not found"),
        ({"aud": "https://oauth2.googleapis.com/token"}, "invalid_grant", "Audience"),
        ({"scope": "https://www.googleapis.com/auth/drive"}, "invalid_scope", "scope"),
        ({"scope": None}, "invalid_grant", "scope"),
        ({"iat": None}, "invalid_grant", "iat"),
        ({"iat": 1_700_000_000, "exp": 1_700_003_600}, "invalid_grant", "reasonable timeframe"),
        ({"exp": int(time.time()) + 7300}, "invalid_grant", "short-lived"),
        ({"iat": int(time.time()) + 3000}, "invalid_grant", "iat and exp"),
    ],
)
async def test_a_wrong_assertion_is_refused(client: Client, claims: dict[str, object], error: str, said: str) -> None:
    status, answer = await client.exchange(**claims)
    assert (status, answer["error"]) == (400, error)
    assert said in str(answer["error_description"])


async def test_another_key_or_algorithm_or_grant_is_refused(client: Client) -> None:
    other = FakeFcm()
    async with other:
        status, answer = await client.exchange_signed(load(other.account))
    assert (status, answer["error_description"]) == (400, "Invalid JWT Signature.")
    unsigned = jwt.encode(client.claims(), "", "none")
    shared = jwt.encode(client.claims(), "a shared secret of enough bytes for HS256", "HS256")
    for assertion in (unsigned, shared, "rubbish", ""):
        status, answer = await client.post_form({"grant_type": GRANT, "assertion": assertion})
        assert (status, answer["error"]) == (400, "invalid_grant")
    status, answer = await client.post_form({"grant_type": "refresh_token"})
    assert (status, answer["error"]) == (400, "unsupported_grant_type")
    async with client.session.get(f"{client.fcm.url}/token") as found:
        assert found.status == 404


async def test_token_requests_are_counted_apart(client: Client) -> None:
    await client.exchange(iss="somebody@else")
    assert client.fcm.summary()["total"] == 0
    tokens = client.fcm.summary()["tokens"]
    assert (tokens["total"], tokens["by_status"]) == (2, {"200": 1, "400": 1})
    await client.fcm.tokens.journal.wait_for(2)


async def test_the_token_endpoint_has_faults_of_its_own(client: Client) -> None:
    client.fcm.control(fail=True)
    assert (await client.exchange())[0] == 200
    client.fcm.control(fail=False, token_status=503, token_times=1)
    assert (await client.send())[0] == 200
    assert (await client.exchange())[0] == 503
    assert (await client.exchange())[0] == 200
    client.fcm.control(token_fail=True)
    assert (await client.exchange())[0] == 500
    client.fcm.control(token_fail=False)
    assert (await client.exchange())[0] == 200
    client.fcm.control(token_error_code="invalid_grant")
    assert await client.exchange() == (
        400,
        {"error": "invalid_grant", "error_description": "The token endpoint was told to fail."},
    )
    state = client.fcm.control(clear=True)
    assert (state["token_rules"], state["rules"]) == ([], [])


async def test_faults_by_target_come_with_fcms_bodies(client: Client) -> None:
    client.fcm.control(target="gone", error_code="UNREGISTERED")
    client.fcm.control(target="slow", error_code="QUOTA_EXCEEDED", retry_after=7, times=1)
    assert error_of(await client.send("gone")) == (404, "NOT_FOUND", ["UNREGISTERED"])
    assert error_of(await client.send("slow")) == (429, "RESOURCE_EXHAUSTED", ["QUOTA_EXCEEDED"])
    assert (await client.send("slow"))[0] == 200
    assert (await client.send("other"))[0] == 200
    assert client.fcm.summary()["by_status"] == {"200": 2, "404": 1, "429": 1}


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"token_stauts": 500}, "token_stauts"),
        ({"token_target": "x", "token_status": 500}, "token_target"),
        ({"error_code": "UNREGISTRED"}, "error_code"),
        ({"token_lifetime": -1}, "token_lifetime"),
        ({"clear": True, "error_code": "NOPE"}, "error_code"),
    ],
)
async def test_wrong_scripts_are_named_and_change_nothing(
    client: Client, parameters: dict[str, object], named: str
) -> None:
    before = client.fcm.control(status=503)
    with pytest.raises(ScriptError, match=named):
        client.fcm.control(**parameters)
    assert client.fcm.control() == before


async def test_two_waiters_see_calls_that_come_at_once(client: Client) -> None:
    waiting = asyncio.gather(client.fcm.wait_for(3), client.fcm.wait_for(1, target="b", of="accepted"))
    await asyncio.gather(*(client.send(target) for target in "abc"))
    await waiting
