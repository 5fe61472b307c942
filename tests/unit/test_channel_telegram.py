import html
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from announce.model.alert import Severity
from announce.model.channel import HttpReply
from announce.model.outcome import (
    ChannelFault,
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
from deliverd_telegram.text import MAX_UNITS, cut, units, write_html, write_plain
from tests.unit.channel_cases import DELIVERY_ID, MESSAGE, TELEGRAM, envelope


def refusal(code: int, description: str = "", **parameters: object) -> bytes:
    content: dict[str, object] = {"ok": False, "error_code": code, "description": description}
    return msgspec.json.encode(content | ({"parameters": parameters} if parameters else {}))


def classify(http: int, body: bytes, **headers: str) -> Outcome:
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return TELEGRAM.channel.classify(HttpReply(http, names, body))


@pytest.mark.parametrize(
    ("code", "description", "kind", "reason"),
    [
        (403, "Forbidden: bot was blocked by the user", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: user is deactivated", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: bot was kicked from the group chat", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: bot was kicked from the supergroup chat", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: bot was kicked from the channel chat", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: bot is not a member of the channel chat", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: the group chat was deleted", TargetGone, Reason.TARGET_GONE),
        (403, "Forbidden: bot can't initiate conversation with a user", Rejected, Reason.REJECTED),
        (400, "Bad Request: chat not found", TargetGone, Reason.TARGET_GONE),
        (400, "Bad Request: message is too long", Rejected, Reason.INVALID_REQUEST),
        (400, "Bad Request: message text is empty", Rejected, Reason.INVALID_REQUEST),
        (400, "Bad Request: text must be non-empty", Rejected, Reason.INVALID_REQUEST),
        (400, "Bad Request: can't parse entities: unclosed start tag", MarkupRefused, Reason.INVALID_REQUEST),
        (403, "Forbidden: can't parse entities", Rejected, Reason.REJECTED),
        (400, "Bad Request: not enough rights to send text messages to the chat", Rejected, Reason.REJECTED),
        (400, "Bad Request: something new", Rejected, Reason.REJECTED),
        (401, "Unauthorized", ChannelFault, Reason.CREDENTIALS),
        (404, "Not Found", ChannelFault, Reason.MISCONFIGURED),
        (409, "Conflict: terminated by other getUpdates request", Rejected, Reason.REJECTED),
        (413, "Request Entity Too Large", Rejected, Reason.REJECTED),
        (429, "Too Many Requests: retry after 5", Transient, Reason.RATE_LIMITED),
        (500, "Internal Server Error: restart", Transient, Reason.PROVIDER_ERROR),
        (502, "Bad Gateway", Transient, Reason.PROVIDER_ERROR),
    ],
)
def test_the_table_of_errors(code: int, description: str, kind: type[Failure], reason: Reason) -> None:
    outcome = classify(code, refusal(code, description))
    assert type(outcome) is kind
    assert outcome.reason is reason
    assert outcome.status_code == code
    assert outcome.detail == f"HTTP {code}: {description}"


@pytest.mark.parametrize(
    ("parameters", "headers", "seconds"),
    [
        ({"retry_after": 35}, {"retry_after": "60"}, 35),
        ({"retry_after": 0}, {}, 0),
        ({}, {"retry_after": "60"}, 60),
        ({}, {}, None),
    ],
)
def test_a_429_waits_as_long_as_it_says(
    parameters: dict[str, object], headers: dict[str, str], seconds: float | None
) -> None:
    outcome = classify(429, refusal(429, "Too Many Requests", **parameters), **headers)
    assert isinstance(outcome, Transient)
    assert outcome.retry_after_s == seconds


UPGRADED = "Bad Request: group chat was upgraded to a supergroup chat"


@pytest.mark.parametrize(
    "description", [UPGRADED, "", "Bad Request: chat not found", "Bad Request: can't parse entities"]
)
def test_a_chat_that_moved_says_where_to(description: str) -> None:
    outcome = classify(400, refusal(400, description, migrate_to_chat_id=-1001234567890))
    assert isinstance(outcome, TargetMoved)
    assert outcome.reason is Reason.TARGET_MOVED
    assert outcome.moved_to == {"chat_id": -1001234567890}
    assert "1001234567890" not in repr(outcome)
    assert {outcome} == {outcome}


@pytest.mark.parametrize(
    ("code", "chat_id", "kind"),
    [
        (403, -1001234567890, Rejected),
        (500, -1001234567890, Transient),
        (400, None, Rejected),
        (400, 2**63, Rejected),
        (400, "@news", Rejected),
        (400, -1.5, Rejected),
    ],
)
def test_only_a_400_with_a_chat_s_number_says_that_it_moved(code: int, chat_id: object, kind: type[Failure]) -> None:
    assert type(classify(code, refusal(code, UPGRADED, migrate_to_chat_id=chat_id))) is kind


def test_the_error_code_counts_where_it_differs_from_the_status() -> None:
    assert isinstance(classify(200, refusal(403, "Forbidden: bot was blocked by the user")), TargetGone)
    assert isinstance(classify(500, refusal(7, "what?")), Transient)
    assert isinstance(classify(200, refusal(200, "what?")), Transient)


def test_a_403_that_isn_t_telegram_s_is_no_chat_s() -> None:
    assert isinstance(classify(403, b"<html>Blocked by policy</html>"), ChannelFault)


def sent(target: Fields, *, plain: bool = False, **changes: object) -> dict[str, Any]:
    request = TELEGRAM.channel.build_request(
        envelope(target, msgspec.structs.replace(MESSAGE, **changes)), "12345:secret", plain
    )
    assert request.url == "https://telegram.example/bot12345:secret/sendMessage"
    assert request.headers == {"Content-Type": "application/json", "X-BA-Delivery-Id": str(DELIVERY_ID)}
    message: dict[str, Any] = msgspec.json.decode(request.body)
    return message


def test_a_message_says_it_all() -> None:
    assert sent(TELEGRAM.target, body="a < b & c > d") == {
        "chat_id": -1001234567890,
        "text": "<b>Disk almost full</b>\n\na &lt; b &amp; c &gt; d",
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
    }


def test_without_markup_the_text_is_as_it_was_given() -> None:
    assert sent(TELEGRAM.target, plain=True, body="a < b & <b>c</b>") == {
        "chat_id": -1001234567890,
        "text": "Disk almost full\n\na < b & <b>c</b>",
        "link_preview_options": {"is_disabled": True},
    }


def test_a_thread_and_a_public_name() -> None:
    message = sent({"channel": "telegram", "chat_id": "@news", "message_thread_id": 7})
    assert (message["chat_id"], message["message_thread_id"]) == ("@news", 7)


def test_what_only_informs_makes_no_sound() -> None:
    silent = {severity for severity in Severity if sent(TELEGRAM.target, severity=severity).get("disable_notification")}
    assert silent == {Severity.INFO}


def test_an_alert_without_a_body_is_its_title() -> None:
    assert write_html("a < b", "") == "<b>a &lt; b</b>"
    assert write_plain("a < b", "") == "a < b"


def shown(text: str) -> str:
    """Read HTML of ours as Telegram does: tags go, entities become characters."""
    inner = re.fullmatch(r"<b>([^<>]*)</b>([^<>]*)", text)
    assert inner is not None
    return html.unescape(inner[1]) + html.unescape(inner[2])


# Not "\r" nor "&": what html.unescape makes of those in other places is its own affair.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0\r")
LONG = st.builds(lambda part, times: part * times, st.text(CHARACTERS, min_size=1, max_size=9), st.integers(1, 3000))


@settings(max_examples=200, deadline=None)
@given(title=st.text(CHARACTERS, min_size=1, max_size=256) | LONG, body=st.text(CHARACTERS) | LONG)
@example(title="t", body="😀" * 2046)
@example(title="t", body="😀" * 2047)
@example(title="tt", body="😀" * 2047)
@example(title="&" * 4096, body="&" * 4096)
@example(title="😀" * 2048, body="b")
@example(title="t" * 4094, body="b")
@example(title="t" * 4093, body="b")
@example(title="t" * 4093, body="bb")
def test_the_text_is_within_the_limit_and_whole(title: str, body: str) -> None:
    text = write_html(title, body)
    read = shown(text)
    assert len(read.encode("utf-16-le")) // 2 <= MAX_UNITS
    full = f"{title}\n\n{body}" if body else title
    if len(full.encode("utf-16-le")) // 2 <= MAX_UNITS:
        assert read == full
    else:
        # It is a beginning of what was to be said, and no more is left out than must be.
        assert read.endswith("…") or read == title
        assert full.startswith(read.removesuffix("…"))
        assert units(read) >= MAX_UNITS - 3


@settings(max_examples=200, deadline=None)
@given(title=st.text(CHARACTERS, min_size=1, max_size=256) | LONG, body=st.text(CHARACTERS) | LONG)
@example(title="t", body="😀" * 2046)
@example(title="t", body="😀" * 2047)
@example(title="tt", body="😀" * 2047)
@example(title="😀" * 3000, body="b")
@example(title="t" * 4094, body="b")
@example(title="&" * 4096, body="")
def test_the_plain_text_is_within_the_limit_and_whole(title: str, body: str) -> None:
    text = write_plain(title, body)
    text.encode()
    assert units(text) <= MAX_UNITS
    full = f"{title}\n\n{body}" if body else title
    if units(full) <= MAX_UNITS:
        assert text == full
    else:
        assert text.endswith("…")
        assert full.startswith(text[:-1])
        assert units(text) >= MAX_UNITS - 1


@given(text=st.text(CHARACTERS), room=st.integers(1, 60))
def test_a_cut_never_splits_a_pair(text: str, room: int) -> None:
    short = cut(text, room)
    assert units(short) <= room
    short.encode()
    assert short == text or (short[-1] == "…" and text.startswith(short[:-1]))
