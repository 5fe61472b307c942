import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.alert import parse_alert
from announce.model.identity import ALERT_ID
from announce.runtime.problem import Problem
from announce.store.alerts import AlertKey
from ingestd.authentication import Producer
from ingestd.offer import CONTENT_HASH_HEADER, name_alert, read_offer

PRODUCER = Producer("acme", "k-1", "1800000000")
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


def test_an_offer_is_written_as_the_alert_with_its_id() -> None:
    offer = read_offer(b'{"title":"t"}', PRODUCER, None)
    message = offer.message()
    assert message.subject == "ba.alerts.acme"
    assert parse_alert(message.payload).alert_id == offer.key.alert_id
    assert message.msg_id == f"acme:{offer.key.alert_id}"
    assert message.headers[CONTENT_HASH_HEADER] == offer.content_hash.hex()


def test_a_trace_goes_on() -> None:
    assert read_offer(b'{"title":"t"}', PRODUCER, TRACE).message().headers["traceparent"][:36] == TRACE[:36]


def test_the_producer_s_id_stays() -> None:
    assert read_offer(b'{"title":"t","alert_id":"a:1"}', PRODUCER, None).key == AlertKey("acme", "a:1")


def test_a_repeated_request_is_the_same_alert_and_any_other_is_not() -> None:
    raw = b'{"title":"t"}'
    first = read_offer(raw, PRODUCER, None).key
    assert read_offer(raw, PRODUCER, TRACE).key == first
    others = [
        read_offer(raw + b" ", PRODUCER, None).key,
        read_offer(raw, PRODUCER._replace(timestamp="1800000001"), None).key,
        read_offer(raw, PRODUCER._replace(key_id="k-2"), None).key,
    ]
    assert len({first, *others}) == 4


@given(st.lists(st.text(max_size=5), max_size=3), st.lists(st.text(max_size=5), max_size=3))
def test_names_differ_wherever_origins_do(one: list[str], other: list[str]) -> None:
    alert = parse_alert(b'{"title":"t"}')
    names = name_alert(alert, *one).alert_id, name_alert(alert, *other).alert_id
    assert (names[0] == names[1]) == (one == other)
    assert ALERT_ID.match(names[0] or "")


@pytest.mark.parametrize(
    ("raw", "status", "kind"),
    [
        (b"junk", 400, "not-json"),
        (b'{"title":"t","company_id":"other"}', 403, "foreign-company"),
        (b'{"title":"","x":1}', 422, "invalid-alert"),
    ],
)
def test_what_cannot_be_taken_has_its_own_answer(raw: bytes, status: int, kind: str) -> None:
    with pytest.raises(Problem) as refused:
        read_offer(raw, PRODUCER, None)
    assert (refused.value.status, refused.value.kind) == (status, kind)


def test_each_bad_field_is_named() -> None:
    with pytest.raises(Problem) as refused:
        read_offer(b'{"title":"","x":1}', PRODUCER, None)
    assert refused.value.document()["errors"] == [
        {"field": "title", "rule": "String should have at least 1 character"},
        {"field": "x", "rule": "unknown field"},
    ]
