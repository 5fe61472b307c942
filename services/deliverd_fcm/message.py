"""An envelope as the body of FCM's messages:send, and the limits that it must keep."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from announce.model.alert import Severity
from announce.model.envelope import Envelope

MAX_PAYLOAD_BYTES: Final = 4096
MAX_TOPIC_PAYLOAD_BYTES: Final = 2048
_MAX_TTL: Final = timedelta(weeks=4)
_MAX_COLLAPSE_ID_BYTES: Final = 64
_RESERVED_KEYS: Final = ("from", "message_type")
_RESERVED_PREFIXES: Final = ("google", "gcm")
_RECEIVERS: Final = ("token", "topic", "condition")


class _Notification(Struct, frozen=True):
    title: str
    body: str


class _Android(Struct, frozen=True, omit_defaults=True):
    priority: str
    collapse_key: str | None = None
    ttl: str | None = None


class _Apns(Struct, frozen=True):
    headers: dict[str, str]


class _Message(Struct, frozen=True, omit_defaults=True, kw_only=True):
    token: str | None = None
    topic: str | None = None
    condition: str | None = None
    notification: _Notification
    data: dict[str, str]
    android: _Android
    apns: _Apns


class _Body(Struct, frozen=True):
    message: _Message


_encode: Final = msgspec.json.Encoder().encode


def encode_message(envelope: Envelope) -> bytes:
    """Write the body that sends this envelope.

    Raises:
        ValueError: FCM wouldn't take it; the text names the field and the rule.
    """
    receiver, data = _receiver(envelope.target), _data(envelope)
    message = _Message(
        **receiver,
        notification=_Notification(envelope.message.title, envelope.message.body),
        data=data,
        android=_android(envelope),
        apns=_Apns(_apns_headers(envelope)),
    )
    body = _encode(_Body(message))
    limit = MAX_PAYLOAD_BYTES if "token" in receiver else MAX_TOPIC_PAYLOAD_BYTES
    # The payload is a part of the body, so it needs no counting when the whole is small enough.
    if len(body) > limit:
        _check_size(envelope, data, limit)
    return body


def _receiver(target: Mapping[str, str | int]) -> dict[str, Any]:
    receiver = {kind: target[kind] for kind in _RECEIVERS if kind in target}
    if len(receiver) != 1 or not all(isinstance(value, str) and value for value in receiver.values()):
        raise ValueError("target: must have exactly one of token, topic and condition, as text")
    return receiver


def _data(envelope: Envelope) -> dict[str, str]:
    """Give the app what the alert brings, and what tells it one alert from another and a repeat from a first."""
    given = envelope.message.data
    for key in given:
        if key in _RESERVED_KEYS or key.startswith(_RESERVED_PREFIXES):
            raise ValueError(f"data: the key {key!r} is reserved by FCM (from, message_type, google*, gcm*)")
    own = {
        "delivery_id": str(envelope.delivery_id),
        "alert_id": envelope.alert_id,
        "severity": envelope.message.severity.value,
    }
    return own | given


def _check_size(envelope: Envelope, data: Mapping[str, str], limit: int) -> None:
    texts = [envelope.message.title, envelope.message.body, *data.keys(), *data.values()]
    size = sum(len(text.encode()) for text in texts)
    if size > limit:
        raise ValueError(f"title, body and data: must be at most {limit} bytes in all for this target, are {size}")


def _urgent(envelope: Envelope) -> bool:
    return envelope.message.severity is not Severity.INFO


def _android(envelope: Envelope) -> _Android:
    ttl = None
    if envelope.expires_at is not None:
        lifetime = min(max(envelope.expires_at - envelope.created_at, timedelta()), _MAX_TTL)
        ttl = f"{lifetime // timedelta(seconds=1)}s"
    return _Android("high" if _urgent(envelope) else "normal", envelope.message.collapse_key, ttl)


def _apns_headers(envelope: Envelope) -> dict[str, str]:
    headers = {"apns-priority": "10" if _urgent(envelope) else "5"}
    if envelope.expires_at is not None:
        headers["apns-expiration"] = str(int(envelope.expires_at.timestamp()))
    if envelope.message.collapse_key is not None:
        headers["apns-collapse-id"] = _collapse_id(envelope.message.collapse_key)
    return headers


def _collapse_id(key: str) -> str:
    """Fit a collapse key into a header: cut short, two keys could become one; their digests don't."""
    fits = key.isascii() and key.isprintable() and len(key) <= _MAX_COLLAPSE_ID_BYTES
    return key if fits else hashlib.sha256(key.encode()).hexdigest()
