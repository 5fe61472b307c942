import hashlib
import hmac
import json
import time
from pathlib import Path

import msgspec
import pytest

from announce_fakes.fcm_message import Message, SendRequest, violation
from announce_fakes.flood import Pace
from announce_fakes.google_errors import scripted_error
from announce_fakes.script import Script, ScriptError
from announce_fakes.service_account import ServiceAccount, read_or_create
from announce_fakes.waiting import Signal
from announce_fakes.webhook import verify

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"


def error_of(**script: object) -> tuple[int, str, str | None]:
    reply = scripted_error(msgspec.convert(script, Script))
    error = json.loads(reply.body)["error"]
    assert error["code"] == reply.status
    codes = [detail["errorCode"] for detail in error.get("details", ()) if detail["@type"] == FCM_ERROR]
    return reply.status, error["status"], codes[0] if codes else None


@pytest.mark.parametrize(
    ("script", "status", "rpc", "code"),
    [
        ({"error_code": "UNREGISTERED"}, 404, "NOT_FOUND", "UNREGISTERED"),
        ({"error_code": "SENDER_ID_MISMATCH"}, 403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
        ({"error_code": "THIRD_PARTY_AUTH_ERROR"}, 401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"),
        ({"error_code": "UNAVAILABLE"}, 503, "UNAVAILABLE", "UNAVAILABLE"),
        ({"retry_after": 3}, 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
        ({"status": 400}, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        ({"status": 401}, 401, "UNAUTHENTICATED", None),
        ({"status": 404}, 404, "NOT_FOUND", "UNREGISTERED"),
        ({"status": 404, "error_code": "none"}, 404, "NOT_FOUND", None),
        ({"status": 403, "error_code": "none"}, 403, "PERMISSION_DENIED", None),
        ({"status": 500}, 500, "INTERNAL", "INTERNAL"),
        ({"status": 504}, 504, "DEADLINE_EXCEEDED", None),
        ({"status": 408}, 408, "UNKNOWN", None),
        ({"status": 503, "error_code": "BRAND_NEW"}, 503, "UNAVAILABLE", "BRAND_NEW"),
    ],
)
def test_fcms_errors(script: dict[str, object], status: int, rpc: str, code: str | None) -> None:
    assert error_of(**script) == (status, rpc, code)


def test_a_code_that_fcm_does_not_have_needs_a_status() -> None:
    with pytest.raises(ScriptError, match="UNREGISTRED"):
        error_of(error_code="UNREGISTRED")


def refused_field(message: dict[str, object]) -> str | None:
    body = msgspec.json.encode({"message": message})
    found = violation(msgspec.json.decode(body, type=SendRequest).message, len(body))
    return found and found[0]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"token": "t", "data": {"a": "b"}}, None),
        ({"topic": "news-1.~%"}, None),
        ({"condition": "'a' in topics"}, None),
        ({}, "message"),
        ({"token": "t", "topic": "n"}, "message"),
        ({"token": ""}, "message.token"),
        ({"topic": "/topics/news"}, "message.topic"),
        ({"token": "t", "data": {"from": "x"}}, "message.data[from]"),
        ({"token": "t", "data": {"message_type": "x", "google.x": "", "gcm_y": ""}}, "message.data[message_type]"),
        ({"token": "t", "data": {"fromage": "x", "collapse_key": "y"}}, None),
        ({"token": "t", "data": {"k": "x" * 4095}}, None),
        ({"token": "t", "data": {"k": "x" * 4096}}, "message"),
        ({"token": "t", "data": {"k": "é" * 2048}}, "message"),
        ({"topic": "t", "notification": {"body": "x" * 2048}}, None),
        ({"topic": "t", "notification": {"body": "x" * 2049}}, "message"),
        ({"token": "t", "android": {"ttl": "2419200s"}}, None),
        ({"token": "t", "android": {"ttl": "2419201s"}}, "message.android.ttl"),
        ({"token": "t", "webpush": {"fcm_options": {"link": "http://x/"}}}, "message.webpush.fcm_options.link"),
    ],
)
def test_what_fcm_refuses_in_a_message(message: dict[str, object], field: str | None) -> None:
    assert refused_field(message) == field


@pytest.mark.parametrize(
    "message",
    [
        {"token": 5},
        {"token": "t", "data": {"n": 1}},
        {"token": "t", "android": {"priority": "urgent"}},
        {"token": "t", "android": {"ttl": "1h"}},
        {"token": "t", "text": "x"},
        {"token": "t", "apns": {"headers": {"apns-priority": 10}}},
    ],
)
def test_what_does_not_even_fit_fcms_shape(message: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(message, Message)


def test_a_pace_lets_a_burst_through_and_then_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace = Pace(per_s=2, burst=3)
    for _ in range(3):
        assert pace.wait_s("a") == 0
        pace.take("a")
    assert pace.wait_s("a") == pytest.approx(0.5)
    assert pace.wait_s("b") == 0
    now += 0.5
    assert pace.wait_s("a") == pytest.approx(0)
    pace.take("a")
    assert pace.wait_s("a") == pytest.approx(0.5)


def signature(secret: bytes, body: bytes, at: int) -> str:
    return hmac.new(secret, b"%d." % at + body, hashlib.sha256).hexdigest()


def test_the_verdict_on_a_signature() -> None:
    now, body = int(time.time()), b'{"id":"whd_1"}'
    good, other = signature(b"s", body, now), signature(b"other", body, now)
    assert verify(f"t={now},v1={good}", body, [b"s"]) == "valid"
    assert verify(f"t={now},v1={other},v1={good}", body, [b"s"]) == "valid"
    assert verify(f"t={now},v1={good}", body, [b"new", b"s"]) == "valid"
    assert verify(f"t={now},v1={other}", body, [b"s"]) == "mismatch"
    assert verify(f"t={now},v1={good}", body + b" ", [b"s"]) == "mismatch"
    assert verify(f"t={now + 1},v1={good}", body, [b"s"]) == "mismatch"
    assert verify(f"v1={good}", body, [b"s"]) == "malformed"
    assert verify(f"t={now},v1={good[:-1]}", body, [b"s"]) == "malformed"
    assert verify(None, body, [b"s"]) == "missing"
    for at in (now - 400, now + 400):
        assert verify(f"t={at},v1={signature(b's', body, at)}", body, [b"s"]) == "stale"


def test_a_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "account.json"
    made = read_or_create(file, "http://127.0.0.1:1/token")
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_or_create(file, "http://127.0.0.1:1/token") == made
    fields = json.loads(file.read_bytes())
    assert fields["type"] == "service_account"
    assert {"project_id", "client_email", "private_key", "private_key_id", "token_uri"} <= fields.keys()
    assert [path.name for path in file.parent.iterdir()] == ["account.json"]


def test_a_loopback_token_uri_follows_the_port_and_any_other_stays(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    made = read_or_create(file, "http://127.0.0.1:1/token")
    moved = read_or_create(file, "http://127.0.0.1:2/token")
    assert moved == msgspec.structs.replace(made, token_uri="http://127.0.0.1:2/token")
    assert read_or_create(file, "http://fakes:3/token", exact=True).token_uri == "http://fakes:3/token"
    assert read_or_create(file, "http://127.0.0.1:4/token").token_uri == "http://fakes:3/token"


def test_a_file_that_is_no_key_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    file.write_text('{"type":"service_account"}')
    with pytest.raises(ValueError, match=r"account\.json.*private_key_id"):
        read_or_create(file, "http://127.0.0.1:1/token")
    with pytest.raises(ValueError, match="private_key: must be an RSA key in PEM"):
        ServiceAccount(private_key_id="1", private_key="no key", token_uri="x").public_key()


async def test_a_signal_forgets_who_gave_up() -> None:
    signal = Signal()
    with pytest.raises(TimeoutError):
        await signal.wait_until(lambda: False, 0.01)
    assert not signal
