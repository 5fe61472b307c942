import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from announce.model.target import CHANNELS, FcmTarget, Target, TelegramTarget, address_of, target_at

ADAPTER: TypeAdapter[FcmTarget | TelegramTarget] = TypeAdapter(Target)
THREADS = st.none() | st.integers(1, 2**63 - 1)
FCM = st.one_of(
    st.fixed_dictionaries({"token": st.from_regex(r"[A-Za-z0-9_:-]{1,200}", fullmatch=True)}),
    st.fixed_dictionaries({"topic": st.from_regex(r"[a-zA-Z0-9_.~%-]{1,80}", fullmatch=True)}),
    st.just({"condition": "'stock' in topics && ('a' in topics || 'b' in topics)"}),
)
TELEGRAM = st.builds(
    lambda chat, thread: {"chat_id": chat} | ({} if thread is None else {"message_thread_id": thread}),
    st.integers(-(2**63), 2**63 - 1) | st.from_regex(r"@[A-Za-z0-9_]{1,32}", fullmatch=True),
    THREADS,
)
TARGETS = st.one_of(
    FCM.map(lambda fields: {"channel": "fcm"} | fields), TELEGRAM.map(lambda fields: {"channel": "telegram"} | fields)
)


@given(TARGETS)
def test_a_target_written_as_an_address_reads_back_the_same(fields: dict[str, str | int]) -> None:
    valid = ADAPTER.validate_python(fields).model_dump(exclude_none=True)
    assert valid == fields
    assert target_at(str(fields["channel"]), address_of(fields)) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"channel": "fcm"},
        {"channel": "fcm", "token": ""},
        {"channel": "fcm", "token": "/topics/all"},
        {"channel": "fcm", "token": "a", "topic": "b"},
        {"channel": "fcm", "topic": "/topics/news"},
        {"channel": "fcm", "condition": "everyone"},
        {"channel": "fcm", "token": "a\0"},
        {"channel": "telegram"},
        {"channel": "telegram", "chat_id": True},
        {"channel": "telegram", "chat_id": 2**63},
        {"channel": "telegram", "chat_id": "12"},
        {"channel": "telegram", "chat_id": 1, "message_thread_id": 0},
        {"channel": "telegram", "chat_id": 1, "token": "a"},
        {"channel": "pigeon"},
        {},
    ],
)
def test_what_is_no_target_is_refused(fields: dict[str, str | int]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(fields)


def test_each_channel_s_model_has_its_codec() -> None:
    assert set(CHANNELS) == {"fcm", "telegram"}
