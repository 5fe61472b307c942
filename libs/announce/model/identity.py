"""The ids that travel through the system, and the time that a row's id carries."""

import hashlib
import random
import re
import uuid
from datetime import UTC, datetime, timedelta

COMPANY_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
ALERT_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DELIVERIES = uuid.UUID("6e5f4d0c-5f0b-5d0a-9a53-3e6d1c2b7a10")
_NEITHER_VERSION_NOR_VARIANT = ~(0xF << 76 | 0b11 << 62)


def delivery_id(company_id: str, alert_id: str, channel: str, address: str) -> uuid.UUID:
    """Name one alert to one target: the same fan-out run twice gives the same ids."""
    return DeliveryIds(company_id, alert_id).of(channel, address)


class DeliveryIds:
    """Names the deliveries of one alert. They are what `uuid.uuid5` makes, in a third of the time."""

    def __init__(self, company_id: str, alert_id: str) -> None:
        self._prefix = hashlib.sha1(_DELIVERIES.bytes, usedforsecurity=False)
        self._prefix.update(f"{company_id}\n{alert_id}\n".encode())

    def of(self, channel: str, address: str) -> uuid.UUID:
        """Name the delivery to one target."""
        digest = self._prefix.copy()
        digest.update(f"{channel}\n{address}".encode())
        value = int.from_bytes(digest.digest()[:16], "big")
        return uuid.UUID(int=value & _NEITHER_VERSION_NOR_VARIANT | 5 << 76 | 0b10 << 62)


def row_id(created_at: datetime, entropy: int | None = None) -> uuid.UUID:
    """Make a UUIDv7 whose time is `created_at`, to the microsecond (RFC 9562, section 6.2, method 3).

    Args:
        created_at: the row's time.
        entropy: what tells it from other rows of that microsecond, at most 62 bits; random unless given. The same
            time and entropy give the same id, so that a row that may have been written can be written again.
    """
    if entropy is None:
        entropy = random.getrandbits(62)
    micros = (created_at - _EPOCH) // timedelta(microseconds=1)
    millis, remainder = divmod(micros, 1000)
    fraction = remainder * 4096 // 1000
    value = millis << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | entropy
    return uuid.UUID(int=value)


def row_id_span(identifier: uuid.UUID) -> tuple[datetime, datetime]:
    """Return the half-open millisecond in which the row with this UUIDv7 was created.

    Raises:
        ValueError: it is not a version 7 UUID, so it carries no time.
    """
    if identifier.version != 7:  # noqa: PLR2004 - the version is the name of the format
        raise ValueError("id: must be a version 7 UUID")
    start = _EPOCH + timedelta(milliseconds=identifier.int >> 80)
    return start, start + timedelta(milliseconds=1)
