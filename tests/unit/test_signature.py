import hashlib
import hmac

import pytest

from announce.model.signature import matches, read_timestamp, sign


def test_it_is_hmac_sha256_over_time_method_path_and_body() -> None:
    expected = hmac.new(b"secret", b'1767225600.POST./v1/alerts?x=1.{"title":"x"}', hashlib.sha256).hexdigest()
    assert sign(b"secret", "1767225600", "POST", "/v1/alerts?x=1", b'{"title":"x"}') == f"v1={expected}"


@pytest.mark.parametrize("given", ["", "v1=", "v1=00", "v2=" + "0" * 64, "é", "\udcff"])
def test_junk_does_not_match_and_does_not_raise(given: str) -> None:
    assert not matches(sign(b"secret", "1767225600", "POST", "/v1/alerts", b""), given)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1767225600", 1767225600),
        ("176722560", None),
        ("17672256000", None),
        ("1767225600\n", None),
        ("\uff11767225600", None),
        ("+767225600", None),
    ],
)
def test_a_timestamp_is_ten_ascii_digits(value: str, seconds: int | None) -> None:
    assert read_timestamp(value) == seconds
