from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from announce.model.alert import Severity
from announce.model.channel import HttpReply
from announce.model.envelope import Envelope
from announce.model.outcome import (
    ChannelFault,
    CredentialRefused,
    Failure,
    Outcome,
    Rejected,
    TargetGone,
    Transient,
)
from announce.model.reason import Reason
from announce.model.target import Fields
from tests.unit.channel_cases import CREATED_AT, DELIVERY_ID, FCM, MESSAGE, envelope

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
INVALID_TOKEN = "The registration token is not a valid FCM registration token"


def google_error(
    http: int, status: str = "", code: str | None = None, message: str = "", fields: tuple[str, ...] = ()
) -> bytes:
    details: list[dict[str, Any]] = [{"@type": FCM_ERROR, "errorCode": code}] if code else []
    if fields:
        details.append({"@type": BAD_REQUEST, "fieldViolations": [{"field": f, "description": "no"} for f in fields]})
    error: dict[str, Any] = {"code": http, "message": message, "status": status}
    return msgspec.json.encode({"error": error | ({"details": details} if details else {})})


def classify(http: int, body: bytes, **headers: str) -> Outcome:
    return FCM.channel.classify(HttpReply(http, {name.replace("_", "-"): text for name, text in headers.items()}, body))


@pytest.mark.parametrize(
    ("http", "status", "code", "kind", "reason"),
    [
        (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", Rejected, Reason.INVALID_REQUEST),
        (404, "NOT_FOUND", "UNREGISTERED", TargetGone, Reason.TARGET_GONE),
        (404, "NOT_FOUND", None, ChannelFault, Reason.MISCONFIGURED),
        (403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", Rejected, Reason.SENDER_MISMATCH),
        (403, "PERMISSION_DENIED", None, ChannelFault, Reason.MISCONFIGURED),
        (401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR", ChannelFault, Reason.MISCONFIGURED),
        (401, "UNAUTHENTICATED", "APNS_AUTH_ERROR", ChannelFault, Reason.MISCONFIGURED),
        (401, "UNAUTHENTICATED", None, CredentialRefused, Reason.CREDENTIALS),
        (429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", Transient, Reason.RATE_LIMITED),
        (500, "INTERNAL", "INTERNAL", Transient, Reason.PROVIDER_ERROR),
        (503, "UNAVAILABLE", "UNAVAILABLE", Transient, Reason.PROVIDER_ERROR),
        (500, "UNKNOWN", "UNSPECIFIED_ERROR", Transient, Reason.PROVIDER_ERROR),
        (400, "INVALID_ARGUMENT", "BRAND_NEW_CODE", Transient, Reason.PROVIDER_ERROR),
        # Without FCM's own code its status speaks, and without that HTTP's.
        (400, "INVALID_ARGUMENT", None, Rejected, Reason.INVALID_REQUEST),
        (429, "RESOURCE_EXHAUSTED", None, Transient, Reason.RATE_LIMITED),
        (503, "UNAVAILABLE", None, Transient, Reason.PROVIDER_ERROR),
        (504, "DEADLINE_EXCEEDED", None, Transient, Reason.PROVIDER_ERROR),
        (409, "ABORTED", None, Transient, Reason.PROVIDER_ERROR),
        (400, "FAILED_PRECONDITION", None, Rejected, Reason.REJECTED),
        (401, "", None, CredentialRefused, Reason.CREDENTIALS),
        (403, "", None, ChannelFault, Reason.MISCONFIGURED),
        (404, "", None, ChannelFault, Reason.MISCONFIGURED),
        (413, "", None, Rejected, Reason.REJECTED),
        # The code comes before the status, and both before HTTP's.
        (503, "UNAVAILABLE", "UNREGISTERED", TargetGone, Reason.TARGET_GONE),
        (403, "PERMISSION_DENIED", "THIRD_PARTY_AUTH_ERROR", ChannelFault, Reason.MISCONFIGURED),
        (404, "UNAVAILABLE", None, Transient, Reason.PROVIDER_ERROR),
        (500, "PERMISSION_DENIED", None, ChannelFault, Reason.MISCONFIGURED),
        (418, "SOMETHING_NEW", None, Rejected, Reason.REJECTED),
        (408, "", None, Transient, Reason.PROVIDER_ERROR),
    ],
)
def test_the_table_of_errors(http: int, status: str, code: str | None, kind: type[Failure], reason: Reason) -> None:
    outcome = classify(http, google_error(http, status, code, "Words of FCM."))
    assert type(outcome) is kind
    assert outcome.reason is reason
    assert outcome.status_code == http
    assert outcome.detail == ": ".join(filter(None, [f"HTTP {http}", code or status, "Words of FCM."]))


@pytest.mark.parametrize(
    ("message", "fields", "kind"),
    [
        (INVALID_TOKEN, (), TargetGone),
        (INVALID_TOKEN, ("message.token",), Rejected),
        ("Request contains an invalid argument.", (), Rejected),
        ("Request contains an invalid argument.", ("message.android.ttl",), Rejected),
        (INVALID_TOKEN, ("message.data[0].value",), Rejected),
    ],
)
def test_an_invalid_argument_ends_the_target_only_when_it_is_the_token(
    message: str, fields: tuple[str, ...], kind: type[Failure]
) -> None:
    outcome = classify(400, google_error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", message, fields))
    assert type(outcome) is kind
    assert ", ".join(fields) in outcome.detail


def test_a_field_of_the_wrong_type_is_our_mistake_and_not_the_target_s() -> None:
    outcome = classify(400, google_error(400, "INVALID_ARGUMENT", None, "Invalid value", ("message.token",)))
    assert isinstance(outcome, Rejected)


@pytest.mark.parametrize("body", [google_error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), b"<html>slow down</html>"])
def test_a_429_waits_as_long_as_it_says_or_a_minute(body: bytes) -> None:
    for headers, seconds in (({"retry_after": "5"}, 5.0), ({}, 60.0)):
        outcome = classify(429, body, **headers)
        assert isinstance(outcome, Transient)
        assert outcome.retry_after_s == seconds


@pytest.mark.parametrize("code", ["INTERNAL", "UNAVAILABLE"])
def test_a_server_error_waits_only_when_it_says_so(code: str) -> None:
    for headers, seconds in (({"retry_after": "17"}, 17.0), ({}, None)):
        outcome = classify(503, google_error(503, code, code), **headers)
        assert isinstance(outcome, Transient)
        assert outcome.retry_after_s == seconds


def sent(to: Envelope) -> dict[str, Any]:
    request = FCM.channel.build_request(to, "token-1", False)
    assert request.url == "https://fcm.example/v1/projects/demo-project/messages:send"
    assert request.headers == {"Authorization": "Bearer token-1", "Content-Type": "application/json"}
    content = msgspec.json.decode(request.body)
    assert content.keys() == {"message"}
    message: dict[str, Any] = content["message"]
    return message


def test_a_message_says_it_all() -> None:
    message = msgspec.structs.replace(MESSAGE, data={"host": "db-1"}, collapse_key="disk")
    assert sent(envelope(FCM.target, message, CREATED_AT + timedelta(minutes=5, milliseconds=700))) == {
        "token": FCM.target["token"],
        "notification": {"title": "Disk almost full", "body": "/var is at 96 %"},
        "data": {"host": "db-1", "delivery_id": str(DELIVERY_ID), "alert_id": "disk-1", "severity": "warning"},
        "android": {"priority": "high", "collapse_key": "disk", "ttl": "300s"},
        "apns": {
            "headers": {
                "apns-priority": "10",
                "apns-expiration": str(int(CREATED_AT.timestamp()) + 300),
                "apns-collapse-id": "disk",
            }
        },
    }


def test_there_is_no_markup_to_leave_out() -> None:
    to = envelope(FCM.target, msgspec.structs.replace(MESSAGE, body="<b>bold</b>"))
    assert FCM.channel.build_request(to, "token-1", True) == FCM.channel.build_request(to, "token-1", False)


def test_what_is_not_given_is_not_said() -> None:
    message = sent(envelope(FCM.target, msgspec.structs.replace(MESSAGE, severity=Severity.INFO)))
    assert message["android"] == {"priority": "normal"}
    assert message["apns"] == {"headers": {"apns-priority": "5"}}


@pytest.mark.parametrize(("severity", "priority"), [("info", "normal"), ("warning", "high"), ("critical", "high")])
def test_what_matters_is_urgent(severity: str, priority: str) -> None:
    message = msgspec.structs.replace(MESSAGE, severity=Severity(severity))
    assert sent(envelope(FCM.target, message))["android"]["priority"] == priority


@pytest.mark.parametrize(
    ("expires_at", "ttl"),
    [
        (CREATED_AT + timedelta(days=365), "2419200s"),
        (CREATED_AT + timedelta(milliseconds=999), "0s"),
        (CREATED_AT - timedelta(days=1), "0s"),
    ],
)
def test_the_ttl_stays_within_fcm_s_bounds(expires_at: datetime, ttl: str) -> None:
    assert sent(envelope(FCM.target, expires_at=expires_at))["android"]["ttl"] == ttl


@pytest.mark.parametrize("target", [{"topic": "news"}, {"condition": "'a' in topics && 'b' in topics"}])
def test_topics_and_conditions(target: Fields) -> None:
    message = sent(envelope({"channel": "fcm", **target}))
    assert target.items() <= message.items()
    assert "token" not in message


def test_the_producer_s_data_comes_first() -> None:
    message = msgspec.structs.replace(MESSAGE, data={"severity": "purple"})
    assert sent(envelope(FCM.target, message))["data"]["severity"] == "purple"


def test_two_long_collapse_keys_stay_two() -> None:
    keys = ["é" * 63 + end for end in "ab"]
    headers = [
        sent(envelope(FCM.target, msgspec.structs.replace(MESSAGE, collapse_key=key)))["apns"]["headers"]
        for key in keys
    ]
    ids = {each["apns-collapse-id"] for each in headers}
    assert len(ids) == 2
    assert all(len(each.encode()) <= 64 and each.isascii() for each in ids)


@pytest.mark.parametrize("key", ["from", "message_type", "google", "google.c.a.e", "gcm", "gcm.n.e"])
def test_reserved_keys_are_refused_by_name(key: str) -> None:
    message = msgspec.structs.replace(MESSAGE, data={key: "x"})
    with pytest.raises(ValueError, match=rf"^data: the key '{key}' is reserved"):
        FCM.channel.build_request(envelope(FCM.target, message), "token-1", False)


@pytest.mark.parametrize("key", ["From", "fromage", "message_types", "agcm"])
def test_keys_that_only_look_reserved_are_taken(key: str) -> None:
    message = msgspec.structs.replace(MESSAGE, data={key: "x"})
    assert sent(envelope(FCM.target, message))["data"][key] == "x"


@pytest.mark.parametrize(
    ("target", "limit"),
    [(FCM.target, 4096), ({"channel": "fcm", "topic": "news"}, 2048), ({"channel": "fcm", "condition": "c"}, 2048)],
)
def test_the_limit_on_the_payload_is_exact_and_counts_bytes(target: Fields, limit: int) -> None:
    own = len("delivery_idalert_idseverity") + len(str(DELIVERY_ID)) + len("disk-1") + len("warning")
    fitting = limit - own - len("T") - len("k" + "v")

    def with_body(size: int) -> Envelope:
        body = "é" * (size // 2) + "e" * (size % 2)
        return envelope(target, msgspec.structs.replace(MESSAGE, title="T", body=body, data={"k": "v"}))

    assert sent(with_body(fitting))
    with pytest.raises(ValueError, match=rf"^title, body and data: must be at most {limit} bytes .*, are {limit + 1}$"):
        FCM.channel.build_request(with_body(fitting + 1), "token-1", False)


@pytest.mark.parametrize("fields", [{}, {"token": ""}, {"token": 5}, {"token": "a", "topic": "b"}])
def test_a_target_that_names_no_one_receiver_is_refused(fields: Fields) -> None:
    with pytest.raises(ValueError, match=r"^target: must have exactly one of"):
        FCM.channel.build_request(envelope({"channel": "fcm", **fields}), "token-1", False)
