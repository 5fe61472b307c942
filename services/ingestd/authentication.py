"""Who a request is from: decided on its raw bytes, before anything is parsed."""

import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

from announce.model.signature import (
    KEY_ID_HEADER,
    MAX_SKEW_S,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    matches,
    read_timestamp,
    sign,
)
from announce.store.keyring import IngestKey, Keyring
from ingestd.problems import Kind, unauthorized

# An unknown key is verified like any other, so that the time tells nothing about which keys exist.
_NO_KEY: Final = IngestKey("", secrets.token_bytes(43))


class Claim(NamedTuple):
    """What a request says of itself; `timestamp` has been checked, the signature hasn't."""

    key_id: str
    timestamp: str
    signature: str


class Producer(NamedTuple):
    """Whom a request is from."""

    company_id: str
    key_id: str
    timestamp: str


def read_claim(headers: Mapping[str, str], now: float) -> Claim:
    """Read the headers of a signed request; what they lack tells nothing about any key.

    Raises:
        Problem: 401, a header is missing, or the time isn't one or is too far from ours.
    """
    for name in (KEY_ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER):
        if not headers.get(name):
            raise unauthorized(Kind.MISSING_HEADER, f"{name}: required")
    timestamp = headers[TIMESTAMP_HEADER]
    signed_at = read_timestamp(timestamp)
    if signed_at is None:
        raise unauthorized(Kind.BAD_TIMESTAMP, f"{TIMESTAMP_HEADER}: must be Unix seconds, ten digits")
    if abs(now - signed_at) > MAX_SKEW_S:
        raise unauthorized(
            Kind.CLOCK_SKEW, f"{TIMESTAMP_HEADER}: must be within {MAX_SKEW_S} s of the server's clock, now {now:.0f}"
        )
    return Claim(headers[KEY_ID_HEADER], timestamp, headers[SIGNATURE_HEADER])


def authenticate(keyring: Keyring, claim: Claim, method: str, path: str, body: bytes) -> Producer:
    """Verify a claim's signature.

    Args:
        keyring: the live keys.
        claim: as the headers make it.
        method: in upper case.
        path: path and query as they were sent.
        body: as it was sent.

    Raises:
        Problem: 401, the same whether there is no such key or the signature is another one.
    """
    key = keyring.keys.get(claim.key_id, _NO_KEY)
    expected = sign(key.secret, claim.timestamp, method, path, body)
    if not matches(expected, claim.signature) or key is _NO_KEY:
        raise unauthorized(
            Kind.BAD_SIGNATURE, f"{SIGNATURE_HEADER}: not this key's signature of this request, or no such key"
        )
    return Producer(key.company_id, claim.key_id, claim.timestamp)
