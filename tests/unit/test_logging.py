import io
import json
import logging

import pytest

from announce.observe.logging import JsonFormatter, event, scrub


@pytest.fixture
def lines() -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("testd"))
    logger = logging.Logger("test")  # noqa: LOG001 - one that no other test shares
    logger.addHandler(handler)
    return logger, stream


def test_a_line_is_one_json_object_with_its_fields(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = lines
    event(logger, logging.INFO, "delivery attempted", attempt=3, reason=None)
    line = json.loads(stream.getvalue())
    assert line | {"time": ""} == {
        "time": "",
        "level": "info",
        "service": "testd",
        "event": "delivery attempted",
        "attempt": 3,
        "reason": None,
    }


def test_no_secret_of_an_exception_s_text_reaches_a_line(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = lines
    error = ConnectionError("POST https://api.telegram.org/bot123456:AAH-secret_x/sendMessage")
    logger.error("call failed for nats://user:hunter2@host", exc_info=error)
    assert "secret" not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert "ConnectionError" in json.loads(stream.getvalue())["error"]


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("https://x/bot1:AB-c_d/sendMessage", "https://x/bot<token>/sendMessage"),
        ("postgresql://u:p%40ss@h/db", "postgresql://u:<password>@h/db"),
        ("Authorization: Bearer ya29.a0-_x", "Authorization: Bearer <token>"),
        ("nothing to hide: a@b.example", "nothing to hide: a@b.example"),
    ],
)
def test_scrubbing(text: str, scrubbed: str) -> None:
    assert scrub(text) == scrubbed
