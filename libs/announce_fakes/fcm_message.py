"""The body of FCM's messages:send, and what FCM refuses about it."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Literal

import msgspec

_TOPIC = re.compile(r"[a-zA-Z0-9\-_.~%]+")
_RESERVED = re.compile(r"from|message_type|google.*|gcm.*", re.DOTALL)
_PAYLOAD_BYTES = 4096
_TOPIC_PAYLOAD_BYTES = 2048
_MAX_TTL_S = 4 * 7 * 86400

Text = dict[str, str]


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A part of a message; what is not named here, FCM doesn't know."""


class Notification(_Part, frozen=True):
    """What every platform shows."""

    title: str | None = None
    body: str | None = None
    image: str | None = None


class Android(_Part, frozen=True):
    """Android's own options; `ttl` is a duration such as `3600s`."""

    collapse_key: str | None = None
    priority: Literal["normal", "high", "NORMAL", "HIGH"] | None = None
    ttl: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?s$")] | None = None
    restricted_package_name: str | None = None
    data: Text | None = None
    notification: dict[str, object] | None = None
    fcm_options: Text | None = None
    direct_boot_ok: bool | None = None


class Apns(_Part, frozen=True):
    """Apple's own options."""

    headers: Text | None = None
    payload: dict[str, object] | None = None
    fcm_options: Text | None = None
    live_activity_token: str | None = None


class Webpush(_Part, frozen=True):
    """The browsers' own options."""

    headers: Text | None = None
    data: Text | None = None
    notification: dict[str, object] | None = None
    fcm_options: Text | None = None


class Message(_Part, frozen=True):
    """A message to exactly one token, topic or condition."""

    name: str | None = None
    token: str | None = None
    topic: str | None = None
    condition: str | None = None
    data: Text = {}
    notification: Notification | None = None
    android: Android | None = None
    apns: Apns | None = None
    webpush: Webpush | None = None
    fcm_options: Text | None = None


class SendRequest(_Part, frozen=True):
    """The whole body."""

    message: Message
    validate_only: bool = False


@lru_cache
def _is_reserved(key: str) -> bool:
    return not key or _RESERVED.fullmatch(key) is not None


def violation(message: Message, body_bytes: int) -> tuple[str, str] | None:
    """The first thing that FCM refuses in a message whose shape is right: the field's path, and why.

    Args:
        message: The message.
        body_bytes: The size of the JSON that it came in; its payload is no bigger.
    """
    if (found := _target_violation(message)) is not None:
        return found
    for key in message.data:
        if _is_reserved(key):
            return f"message.data[{key}]", f"Invalid data payload key: {key}"
    limit = _PAYLOAD_BYTES if message.token is not None else _TOPIC_PAYLOAD_BYTES
    if body_bytes > limit and (size := _payload_bytes(message)) > limit:
        return "message", f"Message is too big: {size} bytes of payload, at most {limit} are allowed"
    return _platform_violation(message)


def _target_violation(message: Message) -> tuple[str, str] | None:
    targets = (message.token, message.topic, message.condition)
    if targets.count(None) != len(targets) - 1:
        return "message", "Exactly one of token, topic or condition is required"
    if message.token == "":
        return "message.token", "The registration token is not a valid FCM registration token"
    if message.topic is not None and not _TOPIC.fullmatch(message.topic):
        return "message.topic", "Malformed topic name"
    return None


def _platform_violation(message: Message) -> tuple[str, str] | None:
    android, webpush = message.android, message.webpush
    if android is not None and android.ttl is not None and float(android.ttl[:-1]) > _MAX_TTL_S:
        return "message.android.ttl", "TTL must be between 0 and 4 weeks"
    options = webpush.fcm_options if webpush is not None else None
    if options is not None and not options.get("link", "https://").startswith("https://"):
        return "message.webpush.fcm_options.link", "Link must be an HTTPS URL"
    return None


def _payload_bytes(message: Message) -> int:
    """Bytes of all keys and values that the device gets."""
    size = _bytes_of(message.data)
    shown = message.notification
    if shown is not None:
        size += sum(len(text.encode()) for text in (shown.title, shown.body, shown.image) if text)
    if message.android is not None and message.android.data is not None:
        size += _bytes_of(message.android.data)
    return size


def _bytes_of(data: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())
