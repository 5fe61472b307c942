"""What the tests of channels are made of: each channel with a credential, an address and a success of its provider."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from announce.model.alert import Severity
from announce.model.channel import Channel
from announce.model.envelope import Envelope, Message
from announce.model.target import Fields
from deliverd_fcm.channel import FcmChannel
from deliverd_telegram.channel import TelegramChannel

CREATED_AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DELIVERY_ID = UUID("6e5f4d0c-0000-5000-8000-000000000001")


@dataclass(frozen=True)
class Case:
    channel: Channel
    credential: str
    target: Fields
    address: str
    """The part of the target that nobody but the provider may see."""
    success: bytes
    message_id: str


FCM = Case(
    channel=FcmChannel("https://fcm.example", "demo-project", 10),
    credential="ya29.c0AfG-Secret_" + "x" * 60,
    target={"channel": "fcm", "token": "dQw4w9WgXcQ:APA91b" + "Hy-_9" * 28},
    address="dQw4w9WgXcQ:APA91b" + "Hy-_9" * 28,
    success=b'{"name":"projects/demo-project/messages/0:1500415314455276%31bd1c9631bd1c96"}',
    message_id="projects/demo-project/messages/0:1500415314455276%31bd1c9631bd1c96",
)
TELEGRAM = Case(
    channel=TelegramChannel("https://telegram.example", 15),
    credential="1234567890:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
    target={"channel": "telegram", "chat_id": -1001234567890},
    address="-1001234567890",
    success=b'{"ok":true,"result":{"message_id":42,"chat":{"id":-1001234567890,"type":"supergroup"},"date":1}}',
    message_id="42",
)
CASES = {case.channel.name: case for case in (FCM, TELEGRAM)}


MESSAGE = Message(
    title="Disk almost full", body="/var is at 96 %", severity=Severity.WARNING, data={}, collapse_key=None
)


def envelope(target: Fields, message: Message = MESSAGE, expires_at: datetime | None = None) -> Envelope:
    return Envelope(
        delivery_id=DELIVERY_ID,
        alert_id="disk-1",
        company_id="acme",
        channel=str(target["channel"]),
        target=dict(target),
        message=message,
        created_at=CREATED_AT,
        expires_at=expires_at,
    )
