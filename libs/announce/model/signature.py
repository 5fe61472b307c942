"""The signature of an ingest request: HMAC-SHA256 over its time, method, path and raw body."""

import hashlib
import hmac
import re
from typing import Final

KEY_ID_HEADER: Final = "X-BA-Key-Id"
TIMESTAMP_HEADER: Final = "X-BA-Timestamp"
SIGNATURE_HEADER: Final = "X-BA-Signature"
MAX_SKEW_S: Final = 300

_TIMESTAMP = re.compile(r"\d{10}\Z", re.ASCII)


def sign(secret: bytes, timestamp: str, method: str, path: str, body: bytes) -> str:
    """Return the value of X-BA-Signature.

    Args:
        secret: the key's secret, as the producer was given it, in UTF-8.
        timestamp: Unix seconds, ten digits.
        method: in upper case.
        path: path and query exactly as they are sent.
        body: the bytes that are sent.
    """
    # A path may hold bytes that are no UTF-8; they are signed as they are sent.
    head = f"{timestamp}.{method}.{path}.".encode("utf-8", "surrogateescape")
    mac = hmac.new(secret, head, hashlib.sha256)
    mac.update(body)
    return f"v1={mac.hexdigest()}"


def signed_headers(key_id: str, secret: bytes, timestamp: int, path: str, body: bytes) -> dict[str, str]:
    """Return the three headers that a POST of `body` to `path` needs."""
    return {
        KEY_ID_HEADER: key_id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: sign(secret, str(timestamp), "POST", path, body),
    }


def matches(expected: str, given: str) -> bool:
    """Compare two signatures in a time that tells nothing about either."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))


def read_timestamp(value: str) -> int | None:
    """Read Unix seconds, or None when it isn't ten digits."""
    return int(value) if _TIMESTAMP.match(value) else None
