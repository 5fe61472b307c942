"""Telegram's service as a whole: real process, real NATS, real TimescaleDB, a provider that listens on a socket."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats

from announce.bus.connection import connection
from announce.bus.publisher import OutgoingMessage, Publisher
from announce.bus.streams import DELIVER, deliver_subject
from announce.model.alert import Severity
from announce.model.envelope import Envelope, Message, encode_envelope
from announce.model.identity import delivery_id
from announce.model.target import address_of
from announce.store.database import Database
from announce_fakes.telegram import FakeTelegram
from tests.programs import Program, running
from tests.servers import Nats

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def envelope(chat: int, *, ttl_s: float | None = None, company_id: str = "acme") -> Envelope:
    target: dict[str, str | int] = {"channel": "telegram", "chat_id": chat}
    now = datetime.now(UTC)
    return Envelope(
        delivery_id=delivery_id(company_id, f"alert-{chat}", "telegram", address_of(target)),
        alert_id=f"alert-{chat}",
        company_id=company_id,
        channel="telegram",
        target=target,
        message=Message(title="Disk full", body="db-1", severity=Severity.CRITICAL, data={}, collapse_key=None),
        created_at=now,
        expires_at=None if ttl_s is None else now + timedelta(seconds=ttl_s),
    )


@dataclass(frozen=True, slots=True)
class Rig:
    """Everything around the service under test."""

    bus: Nats
    store: Database
    provider: FakeTelegram
    settings: dict[str, str]
    folder: Path

    def service(self, **settings: str) -> AbstractAsyncContextManager[Program]:
        return running("deliverd_telegram", self.folder, self.settings | settings)

    async def publish(self, *payloads: bytes, subject: str = deliver_subject("telegram", "acme")) -> None:
        async with connection(self.bus.url()) as admin:
            await admin.connected()
            messages = [
                OutgoingMessage(subject, raw, f"{number}-{hash(raw)}", {"traceparent": TRACE})
                for number, raw in enumerate(payloads)
            ]
            await Publisher(admin).publish_all(messages)

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        async with self.store.connection() as connection:
            return [tuple(row) for row in await connection.fetch(query)]

    async def attempts(self) -> list[tuple[Any, ...]]:
        return await self.rows(
            "SELECT alert_id, attempts, status, reason FROM deliveries ORDER BY created_at, attempts"
        )

    async def letters(self) -> list[tuple[Any, ...]]:
        return await self.rows("SELECT alert_id, attempts, reason FROM deliveries_dlq ORDER BY created_at")

    async def left(self) -> int:
        client = await nats.connect(self.bus.url())
        try:
            return (await client.jetstream().stream_info(DELIVER)).state.messages
        finally:
            await client.close()


def encoded(*chats: int) -> list[bytes]:
    return [encode_envelope(envelope(chat)) for chat in chats]
