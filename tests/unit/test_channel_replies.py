import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from announce.model.replies import MAX_QUOTED, quote, retry_after_s


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Requested entity was not found.", "Requested entity was not found."),
        ("Invalid value at 'message.android.ttl' (TYPE_STRING), 123", None),
        ("line\none\ttab\0nul", "line one tab nul"),
        ("a lone \ud800 surrogate", "a lone   surrogate"),
        ("see https://api.telegram.org/bot1:x/sendMessage now", "see <...> now"),
        ("user ann@example.com", "user <...>"),
        ("chat @our_channel", "chat <...>"),
        ("chat -1001234567890 is gone", "chat -<...> is gone"),
        ("token 12345:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "token <...>"),
        ("token " + "x" * 140 + ", sorry", "token <...>, sorry"),
        ("max 4096 bytes", "max 4096 bytes"),
        ("", ""),
    ],
)
def test_what_may_be_private_is_masked_and_the_rest_is_not(said: str, shown: str | None) -> None:
    assert quote(said) == (said if shown is None else shown)


@settings(max_examples=200)
@given(st.text(max_size=300), st.text(max_size=40), st.integers(0, 5000))
def test_a_secret_never_shows_wherever_it_stands(before: str, after: str, padding: int) -> None:
    secret = "dQw4w9WgXcQ:APA91bHPRgkF3JUikC4ENAHEeMrd41Zxv3hVZjC9KtT8OvPVGJ"
    shown = quote(" pad" * (padding // 4) + before + secret + after)
    assert len(shown) <= MAX_QUOTED
    assert shown.isprintable()
    assert secret[:8] not in shown


def test_no_part_of_a_secret_shows_where_a_long_text_is_cut() -> None:
    for length in range(3100, 3300):
        assert quote("x" * length + " " + "dQw4w9WgXcQ:APA91b" * 10) in {"<...>", "<...> <...>", ""}


@given(st.text())
def test_no_retry_after_brings_it_down(value: str) -> None:
    for headers in ({"retry-after": value}, {"retry-after": value, "date": value}, {"date": value}):
        seconds = retry_after_s(headers)
        assert seconds is None or seconds >= 0
