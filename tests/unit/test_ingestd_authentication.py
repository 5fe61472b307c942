import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.signature import (
    KEY_ID_HEADER,
    MAX_SKEW_S,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    sign,
    signed_headers,
)
from announce.runtime.problem import Problem
from announce.store.keyring import IngestKey, Keyring
from ingestd.authentication import Producer, authenticate, read_claim

NOW = 1_800_000_000
PATH = "/v1/alerts"
BODY = b'{"title":"t"}'
KEYRING = Keyring(keys={"k-1": IngestKey("acme", b"one"), "k-2": IngestKey("acme", b"two")}, rates={"acme": None})


def signed(key_id: str = "k-1", secret: bytes = b"one", timestamp: int = NOW) -> dict[str, str]:
    return signed_headers(key_id, secret, timestamp, PATH, BODY)


def verify(headers: dict[str, str], path: str = PATH, body: bytes = BODY) -> Producer:
    return authenticate(KEYRING, read_claim(headers, NOW), "POST", path, body)


def refusal(headers: dict[str, str], path: str = PATH, body: bytes = BODY) -> Problem:
    with pytest.raises(Problem) as refused:
        verify(headers, path, body)
    assert refused.value.status == 401
    return refused.value


def test_each_live_key_of_a_company_speaks_for_it() -> None:
    assert verify(signed()) == Producer("acme", "k-1", str(NOW))
    assert verify(signed("k-2", b"two")) == Producer("acme", "k-2", str(NOW))


@pytest.mark.parametrize("name", [KEY_ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER])
def test_a_missing_header_is_named(name: str) -> None:
    headers = signed()
    del headers[name]
    problem = refusal(headers)
    assert (problem.kind, problem.detail) == ("missing-header", f"{name}: required")
    assert refusal(headers | {name: ""}).kind == "missing-header"


@pytest.mark.parametrize("timestamp", ["now", "180000000", "18000000000", "1800000000.0", "+800000000", "\uff11" * 10])
def test_a_time_is_ten_digits(timestamp: str) -> None:
    assert refusal(signed() | {TIMESTAMP_HEADER: timestamp}).kind == "bad-timestamp"


@pytest.mark.parametrize("away", [MAX_SKEW_S + 1, -MAX_SKEW_S - 1])
def test_a_clock_that_is_too_far_off_is_told_the_time(away: int) -> None:
    problem = refusal(signed(timestamp=NOW + away))
    assert problem.kind == "clock-skew"
    assert str(NOW) in problem.detail


@pytest.mark.parametrize("away", [MAX_SKEW_S, -MAX_SKEW_S])
def test_a_clock_may_be_off_by_five_minutes(away: int) -> None:
    assert verify(signed(timestamp=NOW + away)).company_id == "acme"


def test_an_unknown_key_is_answered_like_a_wrong_signature() -> None:
    wrong = refusal(signed(secret=b"two"))
    unknown = refusal(signed("k-9"))
    assert wrong.kind == "bad-signature"
    assert wrong.document() == unknown.document()
    assert wrong.headers == unknown.headers


@pytest.mark.parametrize("signature", ["v1=", "v0=" + "0" * 64, "0" * 64, "v1=" + "é" * 64, "v1=" + "\udcff" * 64])
def test_what_is_no_signature_is_a_wrong_one(signature: str) -> None:
    assert refusal(signed() | {SIGNATURE_HEADER: signature}).kind == "bad-signature"


def test_the_signature_covers_path_query_and_body() -> None:
    assert refusal(signed(), path="/v1/alerts?x=1").kind == "bad-signature"
    assert refusal(signed(), path="/v1/alerts:batch").kind == "bad-signature"
    assert refusal(signed(), body=BODY + b" ").kind == "bad-signature"


def test_a_path_of_any_bytes_can_be_verified() -> None:
    path = b"/v1/alerts?x=\xff".decode("utf-8", "surrogateescape")
    assert refusal(signed(), path=path).kind == "bad-signature"
    headers = signed() | {SIGNATURE_HEADER: sign(b"one", str(NOW), "POST", path, BODY)}
    assert verify(headers, path=path).key_id == "k-1"


@given(st.binary(max_size=200))
def test_nothing_but_the_secret_makes_a_signature(secret: bytes) -> None:
    if secret != b"one":
        assert refusal(signed(secret=secret)).kind == "bad-signature"
