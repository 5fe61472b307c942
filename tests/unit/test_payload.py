import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.payload import storable_payload


@pytest.mark.parametrize("raw", [b'{"a": 1, "b": [null, "\\u00e9"]}', b"{}"])
def test_json_that_jsonb_can_hold_stays_as_it_is(raw: bytes) -> None:
    assert storable_payload(raw) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"junk",
        b'{"a":"\\u0000"}',
        b'{"a":"\\ud800"}',
        b'{"a":NaN}',
        b"\xff",
        b"[" * 100_000,
        b'{"a":1e999}',
        b'{"a":1e-400000}',
        b'{"a":0e-400000}',
        b'{"a":0.' + b"0" * 20_000 + b"1}",
        b'{"a":' + b"9" * 5000 + b"}",
        '{"a":1}'.encode("utf-16"),
        b'\xef\xbb\xbf{"a":1}',
    ],
)
def test_anything_else_is_kept_byte_for_byte(raw: bytes) -> None:
    assert base64.b64decode(json.loads(storable_payload(raw))["raw_base64"]) == raw


@given(st.binary())
def test_no_bytes_are_lost(raw: bytes) -> None:
    stored = json.loads(storable_payload(raw))
    assert stored == {"raw_base64": base64.b64encode(raw).decode()} or stored == json.loads(raw)
