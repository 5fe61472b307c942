"""The NATS message that carries one delivery. Decoded on the hottest path, hence msgspec."""

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from announce.model.alert import Severity

Aware = Annotated[datetime, Meta(tz=True)]
# What ingest lets through. Anything else in these would be sent, and then refused by the database each time.
CompanyId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]
AlertId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,128}\Z")]
ChannelName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}\Z")]
TargetText = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*\Z")]

MSG_ID_HEADER: Final = "Nats-Msg-Id"
TRACE_HEADER: Final = "traceparent"


class Message(Struct, frozen=True, kw_only=True):
    """What the recipient reads."""

    title: str
    body: str
    severity: Severity
    data: dict[str, str]
    collapse_key: str | None


class Envelope(Struct, frozen=True, kw_only=True):
    """One alert to one target. `replay_of` names the DLQ row that it was replayed from."""

    v: Literal[1] = 1
    delivery_id: UUID
    alert_id: AlertId
    company_id: CompanyId
    channel: ChannelName
    target: dict[str, TargetText | int]
    message: Message
    created_at: Aware
    expires_at: Aware | None
    replay_of: UUID | None = None

    def expired(self, now: datetime) -> bool:
        """Tell whether it is too late to deliver."""
        return self.expires_at is not None and self.expires_at <= now


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Envelope)


class Undecodable(ValueError):  # noqa: N818 - it says what is the case
    """The bytes aren't an envelope."""


def encode_envelope(envelope: Envelope) -> bytes:
    """Write an envelope as JSON."""
    return _encoder.encode(envelope)


def decode_envelope(raw: bytes) -> Envelope:
    """Read an envelope.

    Raises:
        Undecodable: the text says what is wrong, and where.
    """
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(str(error)) from None
