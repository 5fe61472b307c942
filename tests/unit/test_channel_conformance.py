"""What every channel must hold to, whatever its provider, a proxy or a stranger answers."""

import math
from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from announce.model.alert import Severity
from announce.model.channel import HttpReply, OutboundRequest, Reply, TransportFailure, TransportFault
from announce.model.envelope import Envelope, Message
from announce.model.outcome import (
    ChannelFault,
    CredentialRefused,
    Delivered,
    MarkupRefused,
    Outcome,
    Rejected,
    TargetGone,
    TargetMoved,
    Transient,
)
from announce.model.reason import Reason
from announce.model.replies import MAX_RETRY_AFTER_S
from announce.model.retry import GiveUp, Progress, RetryPolicy, Why, decide
from announce.model.target import CHANNELS, address_of
from tests.unit.channel_cases import CASES, Case, envelope

MAX_DETAIL = 1000

STRANGE_BODIES = {
    "empty": b"",
    "html": b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1><hr>nginx</body></html>",
    "null": b"null",
    "number": b"1e999",
    "list": b'[{"ok":true}]',
    "empty object": b"{}",
    "a health check's": b'{"ok":true}',
    "error of a wrong type": b'{"error":"no","ok":"no","name":7,"result":[],"error_code":"x","description":{}}',
    "details of a wrong type": b'{"error":{"code":503,"status":5,"details":{"@type":1}},"ok":false,"parameters":[]}',
    "success of another kind": b'{"name":"nginx","ok":true,"result":true}',
    "success denied": b'{"ok":false,"result":{"message_id":42}}',
    "truncated": b'{"name":"projects/demo-project/mess',
    "deep": b'{"x":' * 30_000,
    "long": b"x" * 65_536,
    "no UTF-8": b'{"error":{"message":"\xff\xfe"},"ok":false,"error_code":400,"description":"\xff"}',
    "escapes": b'{"error":{"message":"a\\u0000b\\nc"},"ok":false,"error_code":400,"description":"a\\u0000b\\nc"}',
    "long words": msgspec.json.encode(
        {"error": {"message": "no " * 20_000}, "ok": False, "error_code": 400, "description": "no " * 20_000}
    ),
}

TELEGRAM_NAMES = ["ok", "result", "message_id", "error_code", "description", "parameters", "retry_after"]
TELEGRAM_NAMES += ["migrate_to_chat_id"]
FCM_NAMES = ["name", "error", "code", "message", "status", "details", "@type", "errorCode", "fieldViolations", "field"]
VALUES = ["type.googleapis.com/google.firebase.fcm.v1.FcmError", "UNREGISTERED", "UNAUTHENTICATED", "chat not found"]
VALUES += ["INVALID_ARGUMENT", "registration token", "can't parse entities"]
WORDS = st.sampled_from([*TELEGRAM_NAMES, *FCM_NAMES, *VALUES])
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | WORDS,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(WORDS, parts, max_size=6),
)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


TIME_WILL_TELL = {Reason.TIMEOUT, Reason.CONNECTION_FAILED, Reason.UNEXPECTED_REPLY}
REASONS: dict[type[Outcome], set[Reason]] = {
    Transient: TIME_WILL_TELL | {Reason.RATE_LIMITED, Reason.PROVIDER_ERROR},
    Rejected: {Reason.INVALID_REQUEST, Reason.SENDER_MISMATCH, Reason.REJECTED},
    TargetGone: {Reason.TARGET_GONE},
    TargetMoved: {Reason.TARGET_MOVED},
    MarkupRefused: {Reason.INVALID_REQUEST},
    CredentialRefused: {Reason.CREDENTIALS},
    ChannelFault: {Reason.CREDENTIALS, Reason.MISCONFIGURED},
}


def check(outcome: Outcome, reply: Reply) -> None:
    """Hold an outcome against what is true of all of them."""
    assert isinstance(outcome, get_args(Outcome))
    if isinstance(reply, HttpReply):
        assert outcome.status_code == reply.status
    if isinstance(outcome, Delivered):
        assert isinstance(reply, HttpReply)
        assert 200 <= reply.status < 300
        return
    assert isinstance(outcome.reason, Reason)
    assert 0 < len(outcome.detail) <= MAX_DETAIL
    assert outcome.detail.isprintable()
    assert outcome.reason in REASONS[type(outcome)]
    if isinstance(outcome, Transient) and outcome.retry_after_s is not None:
        assert math.isfinite(outcome.retry_after_s)
        assert 0 <= outcome.retry_after_s <= MAX_RETRY_AFTER_S
    if not isinstance(outcome, Transient):
        assert decide(RetryPolicy(10, 0.1, 2, 30), outcome, Progress(1, 0), 0) == GiveUp(Why.PERMANENT)


def test_every_channel_and_every_outcome_is_here() -> None:
    assert CASES.keys() == CHANNELS.keys()
    assert {Delivered, *REASONS} == set(get_args(Outcome))


@pytest.mark.parametrize("body", STRANGE_BODIES.values(), ids=STRANGE_BODIES)
def test_whatever_a_status_comes_with_it_is_classified(case: Case, body: bytes) -> None:
    for status in range(100, 600):
        reply = HttpReply(status, {}, body)
        outcome = case.channel.classify(reply)
        check(outcome, reply)
        assert not isinstance(outcome, Delivered), status


@pytest.mark.parametrize("body", [b"", STRANGE_BODIES["html"], STRANGE_BODIES["truncated"]])
def test_without_the_provider_s_words_the_status_decides(case: Case, body: bytes) -> None:
    for status in range(100, 600):
        outcome = case.channel.classify(HttpReply(status, {}, body))
        if status in (408, 429) or status < 300 or status >= 500:
            assert isinstance(outcome, Transient), status
        elif status in (401, 403, 404) or status < 400:
            assert isinstance(outcome, ChannelFault | CredentialRefused), status
        else:
            assert isinstance(outcome, Rejected), status


def test_a_redirect_is_nobody_s_answer_whatever_its_body_says(case: Case) -> None:
    error = {"code": 503, "status": "UNAVAILABLE", "message": ""}
    body = msgspec.json.encode({"error": error, "ok": False, "error_code": 503, "description": ""})
    assert isinstance(case.channel.classify(HttpReply(503, {}, body)), Transient)
    for status in range(300, 400):
        assert isinstance(case.channel.classify(HttpReply(status, {}, body)), ChannelFault), status


def test_only_a_2xx_with_the_provider_s_own_success_is_a_delivery(case: Case) -> None:
    for status in range(100, 600):
        reply = HttpReply(status, {}, case.success)
        outcome = case.channel.classify(reply)
        check(outcome, reply)
        assert isinstance(outcome, Delivered) == (200 <= status < 300), status
        if isinstance(outcome, Delivered):
            assert outcome.provider_message_id == case.message_id


def test_a_success_that_breaks_off_anywhere_is_none(case: Case) -> None:
    for length in range(len(case.success)):
        outcome = case.channel.classify(HttpReply(200, {}, case.success[:length]))
        assert isinstance(outcome, Transient)
        assert outcome.reason is Reason.UNEXPECTED_REPLY


@pytest.mark.parametrize("fault", TransportFault)
def test_a_call_without_an_answer_is_worth_another(case: Case, fault: TransportFault) -> None:
    failure = TransportFailure(fault, "no answer within 10 s")
    outcome = case.channel.classify(failure)
    check(outcome, failure)
    assert isinstance(outcome, Transient)
    assert outcome.detail == failure.detail
    assert outcome.reason in TIME_WILL_TELL
    assert (outcome.reason is Reason.TIMEOUT) == (fault is TransportFault.TIMEOUT)


def test_what_the_provider_repeats_of_a_request_is_not_passed_on(case: Case) -> None:
    sent = case.channel.build_request(envelope(case.target), case.credential, False)
    said = f'bad call {sent.url} with {dict(sent.headers)}: {case.credential} to {case.address}, "{case.address}"'
    for status in range(100, 600):
        for code, rpc in (("INVALID_ARGUMENT", "INVALID_ARGUMENT"), ("", "UNAUTHENTICATED"), (case.address, "")):
            details = [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}]
            fields = [{"fieldViolations": [{"field": said}]}]
            content = {
                "error": {"code": status, "message": said, "status": rpc, "details": details + fields},
                "ok": False,
                "error_code": status,
                "description": said,
            }
            for parameters in ({}, {"parameters": {"migrate_to_chat_id": 1234567890123}}):
                body = msgspec.json.encode(content | parameters)
                outcome = case.channel.classify(HttpReply(status, {"x-seen": said}, body))
                for private in (case.credential, case.address, "1234567890123"):
                    assert private not in repr(outcome)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "9" * 40}, MAX_RETRY_AFTER_S),
        ({"retry-after": "Mon, 30 Nov 2026 12:01:30 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}, 90),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}, 0),
    ],
)
def test_retry_after_is_passed_on(case: Case, status: int, headers: dict[str, str], seconds: float) -> None:
    outcome = case.channel.classify(HttpReply(status, headers, b""))
    assert isinstance(outcome, Transient)
    assert outcome.retry_after_s == seconds


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
@pytest.mark.parametrize("value", [None, "", "soon", "-1", "1.5", "٣", "Mon, 30 Nov 2026 12:01:30 GMT"])
def test_without_a_readable_retry_after_the_retry_policy_decides(case: Case, status: int, value: str | None) -> None:
    outcome = case.channel.classify(HttpReply(status, {} if value is None else {"retry-after": value}, b""))
    assert isinstance(outcome, Transient)
    assert outcome.retry_after_s is None


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(CASES)),
    status=st.integers(100, 999),
    headers=st.fixed_dictionaries({}, optional={"retry-after": st.text(), "date": st.text()}),
    body=st.binary() | ANSWERS.map(msgspec.json.encode),
)
def test_no_reply_brings_it_down(name: str, status: int, headers: dict[str, str], body: bytes) -> None:
    reply = HttpReply(status, headers, body)
    check(CASES[name].channel.classify(reply), reply)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(CASES)),
    message=st.builds(
        Message,
        title=st.text(min_size=1, max_size=256),
        body=st.text(max_size=4096),
        severity=st.sampled_from(Severity),
        data=st.dictionaries(st.text(max_size=40), st.text(max_size=200), max_size=5),
        collapse_key=st.none() | st.text(min_size=1, max_size=64),
    ),
    expires_at=st.none() | st.datetimes(datetime(2026, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - given one
    plain=st.booleans(),
)
def test_every_envelope_is_written_or_refused_in_words(
    *, name: str, message: Message, expires_at: datetime | None, plain: bool
) -> None:
    case = CASES[name]
    sent = envelope(case.target, message, expires_at)
    request, refusal = built(case, sent, plain=plain)
    if request is None:
        assert refusal
        assert case.address not in refusal
        assert case.credential not in refusal
        return
    assert (request, None) == built(case, sent, plain=plain)
    assert request.headers["Content-Type"] == "application/json"
    assert isinstance(msgspec.json.decode(request.body), dict)
    assert case.credential.encode() not in request.body
    assert str(sent.delivery_id) in f"{request.headers} {request.body!r}"


def built(case: Case, sent: Envelope, *, plain: bool) -> tuple[OutboundRequest | None, str | None]:
    try:
        return case.channel.build_request(sent, case.credential, plain), None
    except ValueError as error:
        return None, str(error)


def test_a_target_without_its_fields_is_refused(case: Case) -> None:
    broken = msgspec.structs.replace(envelope(case.target), target={"channel": case.channel.name})
    with pytest.raises(ValueError, match=r"^target: must have"):
        case.channel.build_request(broken, case.credential, False)


def test_where_a_target_moved_to_can_be_sent_to(case: Case) -> None:
    body = b'{"ok":false,"error_code":400,"parameters":{"migrate_to_chat_id":-1009876543210}}'
    outcome = case.channel.classify(HttpReply(400, {}, body))
    if not isinstance(outcome, TargetMoved):
        assert case.channel.name != "telegram"
        return
    moved = envelope({**case.target, **outcome.moved_to})
    assert address_of(moved.target) != case.address
    assert case.channel.build_request(moved, case.credential, False).body


def test_the_target_of_the_case_is_one_of_the_channel_s(case: Case) -> None:
    assert address_of(case.target) == case.address
