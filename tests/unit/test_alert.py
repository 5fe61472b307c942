import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.alert import (
    MAX_ERRORS,
    ForeignCompany,
    InvalidAlert,
    NotJson,
    Severity,
    parse_alert,
    parse_company_alert,
    valid_company_id,
)
from tests.alerts import ALERTS, EXPIRIES, JSON, MOMENTS, NAMES


def rules(alert: object) -> dict[str, str]:
    """Return what is wrong with it, by field."""
    with pytest.raises(InvalidAlert) as refused:
        parse_alert(json.dumps(alert).encode())
    return {error.field: error.rule for error in refused.value.errors}


def test_the_least_that_an_alert_must_have_is_its_title() -> None:
    alert = parse_alert(b'{"title": "Disk full"}')
    assert (alert.severity, alert.body, alert.data, alert.tags, alert.targets) == (Severity.INFO, "", {}, [], None)
    assert alert.expiry(datetime.now(UTC)) is None


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"title": None}, "title", "valid string"),
        ({"title": ""}, "title", "at least 1"),
        ({"title": "x" * 257}, "title", "at most 256"),
        ({"title": "nul \0"}, "title", "NUL"),
        ({"title": "half \ud800"}, "title", "lone surrogate"),
        ({"body": "x" * 4097}, "body", "at most 4096"),
        ({"body": 7}, "body", "valid string"),
        ({"severity": "urgent"}, "severity", "'info', 'warning' or 'critical'"),
        ({"alert_id": ""}, "alert_id", "1 to 128 characters"),
        ({"alert_id": "a" * 129}, "alert_id", "1 to 128 characters"),
        ({"alert_id": "a b"}, "alert_id", "1 to 128 characters"),
        ({"alert_id": "a\n"}, "alert_id", "1 to 128 characters"),
        ({"data": {"k": 1}}, "data.k", "valid string"),
        ({"data": {"k": "\0"}}, "data.k", "NUL"),
        ({"data": {"\0": "v"}}, "data.\\x00", "NUL"),
        ({"data": []}, "data", "valid dictionary"),
        ({"tags": ["t"] * 17}, "tags", "at most 16"),
        ({"tags": [""]}, "tags[0]", "at least 1"),
        ({"ttl_s": 0}, "ttl_s", "greater than or equal to 1"),
        ({"ttl_s": True}, "ttl_s", "valid integer"),
        ({"ttl_s": 1.5}, "ttl_s", "valid integer"),
        ({"ttl_s": 60, "expires_at": "2030-01-01T00:00:00Z"}, "alert", "must not both be given"),
        ({"expires_at": "tomorrow"}, "expires_at", "RFC 3339"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at", "RFC 3339"),
        ({"expires_at": 1893456000}, "expires_at", "RFC 3339"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "expires_at", "RFC 3339"),
        ({"colour": "red"}, "colour", "unknown field"),
        ({"targets": []}, "targets", "at least 1"),
        ({"targets": [{"channel": "fcm", "token": "t"}] * 1001}, "targets", "at most 1000"),
        ({"targets": [{"channel": "fcm", "token": "t", "topic": "n"}]}, "targets[0]", "exactly one of"),
        ({"targets": [{"channel": "fcm"}]}, "targets[0]", "exactly one of"),
        ({"targets": [{"channel": "fcm", "topic": "/topics/n"}]}, "targets[0].topic", "pattern"),
        ({"targets": [{"channel": "telegram", "chat_id": 2**63}]}, "targets[0].chat_id", "64-bit integer"),
        ({"targets": [{"channel": "telegram", "chat_id": "someone"}]}, "targets[0].chat_id", "public name"),
        ({"targets": [{"channel": "telegram", "chat_id": True}]}, "targets[0].chat_id", "64-bit integer"),
        ({"targets": [{"channel": "sms", "number": "1"}]}, "targets[0]", "'fcm', 'telegram'"),
        ({"targets": [{"channel": "\ud800"}]}, "targets[0]", "'fcm', 'telegram'"),
        ({"targets": [{"channel": "\0"}]}, "targets[0]", "'fcm', 'telegram'"),
        ({"severity": "\0"}, "severity", "'info', 'warning' or 'critical'"),
    ],
)  # fmt: skip
def test_each_broken_rule_is_named_with_its_field(change: dict[str, Any], field: str, rule: str) -> None:
    found = rules({"title": "t"} | change)
    assert list(found) == [field]
    assert found[field].isprintable()
    assert rule in found[field]


def test_every_broken_rule_is_named_at_once_up_to_a_limit() -> None:
    assert set(rules({"body": 1, "ttl_s": 0, "x": 1})) == {"title", "body", "ttl_s", "x"}
    assert len(rules({f"unknown-{number}": 1 for number in range(5000)})) == MAX_ERRORS


def test_the_name_of_an_unknown_field_can_be_written_anywhere() -> None:
    (name,) = rules({"title": "t", "\ud800" * 100: 1})
    assert name.isascii()
    assert len(name) <= 64


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b'"text"',
        b"\xff",
        b'\xef\xbb\xbf{"title":"t"}',
        '{"title":"t"}'.encode("utf-16"),
        b'{"title":"t","title":"u"}',
        b'{"title":"t","data":{"a":"1","a":"2"}}',
        b'{"title":"t","ttl_s":NaN}',
        b'{"title":"t"} x',
        b'{"title":"a\nb"}',
        b"[" * 100_000,
        b'{"title":' * 20_000,
        b'{"ttl_s":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_json_object_is_refused_as_such(raw: bytes) -> None:
    with pytest.raises(NotJson) as refused:
        parse_alert(raw)
    assert str(refused.value)


def refusal(raw: bytes) -> str:
    """Return why it is no alert, or nothing when it is one."""
    try:
        parse_alert(raw)
    except (NotJson, InvalidAlert) as refused:
        return str(refused) or "no reason"
    return ""


# A reason goes into answers, logs and the database, which hold no NUL, no line break and no surrogate.


@given(st.binary())
def test_any_bytes_are_an_alert_or_are_refused(raw: bytes) -> None:
    assert refusal(raw).isprintable()


@given(JSON | st.dictionaries(NAMES, JSON))
def test_any_json_is_an_alert_or_is_refused(content: object) -> None:
    assert refusal(json.dumps(content).encode()).isprintable()


@given(ALERTS, NAMES | st.text(), JSON)
def test_an_alert_with_a_field_changed_is_an_alert_or_is_refused(
    content: dict[str, Any], name: str, value: object
) -> None:
    assert refusal(json.dumps(content | {name: value}).encode()).isprintable()


@given(ALERTS, EXPIRIES, MOMENTS | st.none())
def test_a_valid_alert_stays_the_same_when_it_is_written_and_read(
    content: dict[str, Any], expiry: dict[str, Any], expires_at: datetime | None
) -> None:
    if expires_at is not None:
        expiry = {"expires_at": expires_at.isoformat()}
    alert = parse_alert(json.dumps(content | expiry).encode())
    again = parse_alert(alert.encode())
    assert again == alert
    assert again.content_hash() == alert.content_hash()
    assert again.encode() == alert.encode()


def test_the_content_is_the_same_however_it_is_written_and_whatever_its_name() -> None:
    first = parse_alert(b'{"title":"t","data":{"a":"1","b":"2"},"severity":"info","alert_id":"x"}')
    second = parse_alert(b'{ "data": {"b": "2", "a": "\\u0031"}, "company_id": "acme", "title": "t", "tags": [] }')
    assert first.content_hash() == second.content_hash()


@pytest.mark.parametrize("change", [{"title": "u"}, {"ttl_s": 5}, {"severity": "critical"}, {"tags": ["a"]}])
def test_other_content_has_another_hash(change: dict[str, Any]) -> None:
    assert (
        parse_alert(json.dumps({"title": "t"} | change).encode()).content_hash()
        != parse_alert(b'{"title":"t"}').content_hash()
    )


def test_an_alert_expires_when_it_says_or_so_long_after_it_was_accepted() -> None:
    now = datetime.now(UTC)
    assert parse_alert(b'{"title":"t","ttl_s":60}').expiry(now) == now + timedelta(seconds=60)
    moment = datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert parse_alert(b'{"title":"t","expires_at":"2030-01-31T14:00:00+02:00"}').expiry(now) == moment


def test_an_alert_may_name_its_own_company_and_no_other() -> None:
    assert parse_company_alert(b'{"title":"t","company_id":"acme"}', "acme").company_id == "acme"
    with pytest.raises(ForeignCompany):
        parse_company_alert(b'{"title":"t","company_id":"other"}', "acme")


@pytest.mark.parametrize("name", ["acme", "a", "0-9", "a" * 63])
def test_what_can_name_a_company(name: str) -> None:
    assert valid_company_id(name)


@pytest.mark.parametrize("name", ["*", ">", "", "Acme", "-a", "a.b", "a" * 64, "a\n", "é"])
def test_what_can_name_no_company(name: str) -> None:
    assert not valid_company_id(name)
