"""Both channels against providers that listen on sockets, through the client that the services use."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from announce.model.channel import Channel, CredentialSource, TransportFailure
from announce.model.envelope import Envelope
from announce.model.outcome import (
    ChannelFault,
    CredentialRefused,
    Delivered,
    Failure,
    MarkupRefused,
    Outcome,
    Rejected,
    TargetGone,
    TargetMoved,
    Transient,
)
from announce.model.reason import Reason
from announce.model.target import Fields
from announce.outbound.client import HttpClient, outbound_client
from announce.outbound.settings import OutboundSettings
from announce_fakes import FakeFcm, FakeTelegram
from deliverd_fcm.channel import FcmChannel
from deliverd_fcm.credentials import ServiceAccountTokens
from deliverd_fcm.service_account import read_service_account
from deliverd_telegram.channel import TelegramChannel
from deliverd_telegram.credentials import BotToken
from tests.unit.channel_cases import CASES, DELIVERY_ID, FCM, MESSAGE, TELEGRAM, envelope


@dataclass
class Sender:
    """A channel with its provider."""

    provider: FakeFcm | FakeTelegram
    channel: Channel
    credentials: CredentialSource
    client: HttpClient

    async def send(self, to: Envelope | None = None, timeout_s: float = 10, *, plain: bool = False) -> Outcome:
        credential = await self.credentials.current()
        to = to or envelope(CASES[self.channel.name].target)
        reply = await self.client.post(self.channel.build_request(to, credential, plain), timeout_s)
        if isinstance(reply, TransportFailure):
            assert credential not in repr(reply)
        outcome = self.channel.classify(reply)
        assert credential not in repr(outcome)
        assert CASES[self.channel.name].address not in repr(outcome)
        return outcome


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fcm") / "account.json"


async def open_sender(name: str, key_file: Path, stack: AsyncExitStack) -> Sender:
    client = await stack.enter_async_context(outbound_client(OutboundSettings()))
    if name == "fcm":
        fcm = await stack.enter_async_context(FakeFcm(credentials_file=key_file))
        account = read_service_account(key_file)
        return Sender(fcm, FcmChannel(fcm.url, account.project_id, 10), ServiceAccountTokens(account, client), client)
    telegram = await stack.enter_async_context(FakeTelegram())
    return Sender(telegram, TelegramChannel(telegram.url, 15), BotToken(SecretStr(telegram.token)), client)


@pytest.fixture
async def sender(request: pytest.FixtureRequest, key_file: Path) -> AsyncIterator[Sender]:
    async with AsyncExitStack() as stack:
        yield await open_sender(request.param, key_file, stack)


each_channel = pytest.mark.parametrize("sender", sorted(CASES), indirect=True)
fcm_only = pytest.mark.parametrize("sender", ["fcm"], indirect=True)
telegram_only = pytest.mark.parametrize("sender", ["telegram"], indirect=True)


def received(sender: Sender) -> dict[str, Any]:
    (entry,) = sender.provider.received()
    return entry


@each_channel
async def test_a_message_is_taken_and_known_by_its_delivery(sender: Sender) -> None:
    outcome = await sender.send()
    assert isinstance(outcome, Delivered)
    assert outcome.status_code == 200
    assert outcome.provider_message_id
    entry = received(sender)
    assert (entry["id"], entry["status"]) == (str(DELIVERY_ID), 200)
    assert entry["target"] == CASES[sender.channel.name].address


@fcm_only
async def test_fcm_reads_what_was_written(sender: Sender) -> None:
    message = msgspec.structs.replace(MESSAGE, data={"host": "db-1"}, collapse_key="disk")
    assert isinstance(await sender.send(envelope(FCM.target, message)), Delivered)
    taken = received(sender)["message"]["message"]
    assert taken["notification"] == {"title": "Disk almost full", "body": "/var is at 96 %"}
    assert taken["data"]["host"] == "db-1"
    assert taken["android"] == {"priority": "high", "collapse_key": "disk"}


@fcm_only
@pytest.mark.parametrize("fields", [{"topic": "news"}, {"condition": "'a' in topics"}])
async def test_fcm_takes_topics_and_conditions(sender: Sender, fields: dict[str, str]) -> None:
    assert isinstance(await sender.send(envelope({"channel": "fcm", **fields})), Delivered)


@fcm_only
async def test_fcm_takes_a_payload_of_just_its_limit(sender: Sender) -> None:
    spare = 4096
    while spare:
        message = msgspec.structs.replace(MESSAGE, body="é" * (spare // 2) + "e" * (spare % 2))
        try:
            assert isinstance(await sender.send(envelope(FCM.target, message)), Delivered)
        except ValueError as error:
            spare -= int(str(error).rsplit(" ", 1)[1]) - 4096
        else:
            break
    assert sender.provider.messages.journal.count("accepted") == 1


@telegram_only
@pytest.mark.parametrize("body", ["&" * 8000, "😀" * 4000, "<b>" * 3000, "a < b &amp; c", "\n" * 5000, "x" * 4096])
async def test_telegram_takes_and_reads_every_text(sender: Sender, body: str) -> None:
    message = msgspec.structs.replace(MESSAGE, title="<Disk> & more", body=body)
    assert isinstance(await sender.send(envelope(TELEGRAM.target, message)), Delivered)
    text = received(sender)["message"]["text"]
    assert text.startswith("<b>&lt;Disk&gt; &amp; more</b>\n\n")


@telegram_only
async def test_telegram_takes_a_thread_of_a_public_chat(sender: Sender) -> None:
    target: Fields = {"channel": "telegram", "chat_id": "@fire_alerts", "message_thread_id": 7}
    assert isinstance(await sender.send(envelope(target)), Delivered)
    assert received(sender)["message"]["message_thread_id"] == 7


@each_channel
@pytest.mark.parametrize(
    ("script", "reason", "detail"),
    [
        ({"hang": True}, Reason.TIMEOUT, "no answer within 0.3 s"),
        ({"drip": 5}, Reason.TIMEOUT, "no answer within 0.3 s"),
        ({"reset": True}, Reason.CONNECTION_FAILED, "connection reset"),
        ({"bytes": 10_000_000}, Reason.UNEXPECTED_REPLY, "answer longer than 65536 bytes"),
        ({"bytes": 60_000}, Reason.UNEXPECTED_REPLY, "HTTP 200, but not the provider's answer"),
        ({"html": True}, Reason.UNEXPECTED_REPLY, "HTTP 200, but not the provider's answer"),
        ({"html": True, "status": 502}, Reason.PROVIDER_ERROR, "HTTP 502"),
        ({"fail": True}, Reason.PROVIDER_ERROR, None),
        ({"status": 429, "retry_after": 3}, Reason.RATE_LIMITED, None),
    ],
)
async def test_a_provider_in_trouble_is_tried_again_and_the_next_call_works(
    sender: Sender, script: dict[str, object], reason: Reason, detail: str | None
) -> None:
    await sender.credentials.current()
    times: dict[str, object] = {} if "fail" in script else {"times": 1}
    sender.provider.control(**script, **times)
    outcome = await sender.send(timeout_s=0.3 if reason is Reason.TIMEOUT else 10)
    assert isinstance(outcome, Transient)
    assert outcome.reason is reason
    assert detail in (None, outcome.detail)
    assert outcome.retry_after_s == script.get("retry_after")
    sender.provider.control(fail=False)
    assert isinstance(await sender.send(), Delivered)


@each_channel
async def test_a_provider_that_is_away_is_tried_again(sender: Sender) -> None:
    await sender.credentials.current()
    await sender.provider.stop()
    # The first call may still find a connection that was kept.
    outcomes = [await sender.send() for _ in range(2)]
    assert all(isinstance(outcome, Transient) for outcome in outcomes)
    outcome = outcomes[1]
    assert isinstance(outcome, Transient)
    assert (outcome.reason, outcome.detail) == (Reason.CONNECTION_FAILED, "connection refused")


@each_channel
async def test_a_redirect_is_a_fault_of_ours_and_not_followed(sender: Sender) -> None:
    sender.provider.control(status=302, location=f"{sender.provider.url}/elsewhere")
    outcome = await sender.send()
    assert isinstance(outcome, ChannelFault)
    assert outcome.reason is Reason.MISCONFIGURED
    assert sender.provider.messages.journal.count() == 1


@each_channel
async def test_many_calls_at_once(sender: Sender) -> None:
    outcomes = await asyncio.gather(*(sender.send() for _ in range(200)))
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert sender.provider.messages.journal.count("accepted") == 200


@fcm_only
@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        ("UNREGISTERED", TargetGone, Reason.TARGET_GONE),
        ("INVALID_ARGUMENT", Rejected, Reason.INVALID_REQUEST),
        ("SENDER_ID_MISMATCH", Rejected, Reason.SENDER_MISMATCH),
        ("THIRD_PARTY_AUTH_ERROR", ChannelFault, Reason.MISCONFIGURED),
        ("QUOTA_EXCEEDED", Transient, Reason.RATE_LIMITED),
        ("UNAVAILABLE", Transient, Reason.PROVIDER_ERROR),
        ("INTERNAL", Transient, Reason.PROVIDER_ERROR),
    ],
)
async def test_fcm_s_errors(sender: Sender, code: str, kind: type[Failure], reason: Reason) -> None:
    sender.provider.control(error_code=code)
    outcome = await sender.send()
    assert isinstance(outcome, kind)
    assert outcome.reason is reason


@fcm_only
async def test_a_wrong_project_is_a_fault_of_ours(sender: Sender) -> None:
    sender.channel = FcmChannel(sender.provider.url, "other-project", 10)
    outcome = await sender.send()
    assert isinstance(outcome, ChannelFault)
    assert (outcome.reason, outcome.status_code) == (Reason.MISCONFIGURED, 404)


@fcm_only
async def test_a_revoked_token_is_refused(sender: Sender) -> None:
    await sender.send()
    sender.provider.control(revoke_tokens=True)
    assert isinstance(await sender.send(), CredentialRefused)


@telegram_only
@pytest.mark.parametrize(
    ("script", "kind", "reason"),
    [
        ({"error_code": "Forbidden: bot was blocked by the user"}, TargetGone, Reason.TARGET_GONE),
        ({"error_code": "Bad Request: chat not found"}, TargetGone, Reason.TARGET_GONE),
        ({"error_code": "Bad Request: not enough rights to send"}, Rejected, Reason.REJECTED),
        ({"migrate_to_chat_id": -1009876543210}, TargetMoved, Reason.TARGET_MOVED),
        ({"error_code": "Bad Request: can't parse entities: bad tag"}, MarkupRefused, Reason.INVALID_REQUEST),
        ({"error_code": "Bad Request: message is too long"}, Rejected, Reason.INVALID_REQUEST),
        ({"status": 401}, ChannelFault, Reason.CREDENTIALS),
        ({"status": 404}, ChannelFault, Reason.MISCONFIGURED),
        ({"status": 502}, Transient, Reason.PROVIDER_ERROR),
    ],
)
async def test_telegram_s_errors(
    sender: Sender, script: dict[str, object], kind: type[Failure], reason: Reason
) -> None:
    sender.provider.control(**script)
    outcome = await sender.send()
    assert isinstance(outcome, kind)
    assert outcome.reason is reason


@telegram_only
@pytest.mark.parametrize("body", ["&" * 8000, "😀" * 4000, "<b>" * 3000, "a < b &amp; c", "x" * 4096])
async def test_telegram_takes_every_text_without_markup_too(sender: Sender, body: str) -> None:
    message = msgspec.structs.replace(MESSAGE, title="<Disk> & more", body=body)
    assert isinstance(await sender.send(envelope(TELEGRAM.target, message), plain=True), Delivered)
    taken = received(sender)["message"]
    assert "parse_mode" not in taken
    assert taken["text"].startswith(f"<Disk> & more\n\n{body[:1000]}")
    assert taken["text"].endswith("…" if len(body) > 1000 else body)


@telegram_only
async def test_a_chat_that_moved_is_reached_where_it_went(sender: Sender) -> None:
    sender.provider.control(target=TELEGRAM.address, migrate_to_chat_id=-1009876543210)
    outcome = await sender.send()
    assert isinstance(outcome, TargetMoved)
    assert isinstance(await sender.send(envelope({**TELEGRAM.target, **outcome.moved_to})), Delivered)
    assert [entry["target"] for entry in sender.provider.received()] == [TELEGRAM.address, "-1009876543210"]


@telegram_only
async def test_a_wrong_bot_token_is_a_fault_of_ours(sender: Sender) -> None:
    sender.credentials = BotToken(SecretStr("54321:wrong"))
    outcome = await sender.send()
    assert isinstance(outcome, ChannelFault)
    assert (outcome.reason, outcome.status_code) == (Reason.CREDENTIALS, 401)
