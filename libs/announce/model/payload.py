"""A message of any bytes as JSON that Postgres can hold."""

import base64
import json
import math
from typing import Final

import msgspec

MAX_DIGITS: Final = 1000

_ESCAPED_NUL: Final = b"\\u0000"


def storable_payload(raw: bytes) -> bytes:
    """Return the message itself when it is a JSON object that jsonb can hold, else `{"raw_base64": …}`."""
    return raw if _is_storable(raw) else raw_payload(raw)


def raw_payload(raw: bytes) -> bytes:
    """Return any bytes as `{"raw_base64": …}`."""
    return msgspec.json.encode({"raw_base64": base64.b64encode(raw).decode()})


def _is_storable(raw: bytes) -> bool:
    # An escaped backslash before "u0000" would be harmless, but base64 loses nothing either.
    if _ESCAPED_NUL in raw:
        return False
    try:
        # Given bytes, json.loads would read UTF-16 too.
        content = json.loads(raw.decode(), parse_constant=_refuse, parse_float=_numeric)
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict)


def _refuse(name: str) -> None:
    raise ValueError(name)


def _numeric(digits: str) -> float:
    """Read a number that Postgres's numeric holds: neither too large, nor too small, nor with too many digits."""
    value = float(digits)
    if math.isinf(value) or (value == 0 and "e" in digits.lower()) or len(digits) > MAX_DIGITS:
        raise ValueError(digits)
    return value
