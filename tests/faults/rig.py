"""A channel's service with everything around it real, and a fault proxy on each of its connections."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID

from nats.errors import Error as NatsError
from nats.js.api import ConsumerInfo

from announce.bus.connection import Connection, connection
from announce.bus.publisher import OutgoingMessage, Publisher
from announce.bus.streams import DELIVER, deliver_subject
from announce.model.alert import Severity
from announce.model.envelope import Envelope, Message, encode_envelope
from announce.model.identity import delivery_id
from announce.model.target import address_of
from announce.store.database import Database
from announce_fakes.fcm import FakeFcm
from announce_fakes.proxy import FaultProxy
from announce_fakes.telegram import FakeTelegram
from tests.eventually import eventually
from tests.faults.books import Books, balanced
from tests.faults.witness import Witness, witness
from tests.programs import Program, running
from tests.servers import Nats, Postgres

COMPANY = "acme"
EMPTY_WITHIN_S = 40.0
PATIENCE_S = "60"
"""How long a call may take. On a busy machine, too, one that hangs does so for as long as its test needs."""
Provider = FakeFcm | FakeTelegram


@dataclass(frozen=True, slots=True)
class Servers:
    """What every channel stands on."""

    bus: Nats
    postgres: Postgres
    store: Database
    dsn: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Rig:
    """A channel under test. Its service sees NATS and Postgres through the proxies, the test sees them directly."""

    channel: str
    servers: Servers
    provider: Provider
    admin: Connection
    nats: FaultProxy
    postgres: FaultProxy
    settings: Mapping[str, str]
    witness: Witness
    accepted: dict[UUID, str]
    """The deliveries that were published, by what their targets are called."""

    def service(self, **settings: str) -> AbstractAsyncContextManager[Program]:
        return running(f"deliverd_{self.channel}", self.servers.folder, {**self.settings, **settings})

    def address(self, name: str) -> str:
        """Where the target of this name is; so the provider's rules call it too, with a star at the end or not."""
        return name if self.channel == "fcm" else f"@{name}"

    def envelope(self, name: str, ttl_s: float | None = None) -> Envelope:
        field_name = {"fcm": "token", "telegram": "chat_id"}[self.channel]
        target: dict[str, str | int] = {"channel": self.channel, field_name: self.address(name)}
        now = datetime.now(UTC)
        return Envelope(
            delivery_id=delivery_id(COMPANY, name, self.channel, address_of(target)),
            alert_id=name,
            company_id=COMPANY,
            channel=self.channel,
            target=target,
            message=Message(title="Disk full", body=name, severity=Severity.CRITICAL, data={}, collapse_key=None),
            created_at=now,
            expires_at=None if ttl_s is None else now + timedelta(seconds=ttl_s),
        )

    async def publish(self, names: Iterable[str], ttl_s: float | None = None) -> None:
        """Have a delivery wait for the target of each name."""
        made = [self.envelope(name, ttl_s) for name in names]
        await self.publish_raw({str(each.delivery_id): encode_envelope(each) for each in made})
        self.accepted.update({each.delivery_id: each.alert_id for each in made})

    async def publish_raw(self, payloads: Mapping[str, bytes]) -> None:
        """Publish any bytes, by their message ids."""
        subject = deliver_subject(self.channel, COMPANY)
        messages = [OutgoingMessage(subject, payload, name) for name, payload in payloads.items()]
        await self.admin.connected()
        await Publisher(self.admin).publish_all(messages)

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        async with self.servers.store.connection() as connected:
            return [tuple(row) for row in await connected.fetch(query, *arguments)]

    async def count(self, status: str) -> int:
        """Count the attempt rows of this status."""
        async with self.servers.store.connection() as connected:
            return int(await connected.fetchval("SELECT count(*) FROM deliveries WHERE status = $1", status))

    async def left(self) -> int:
        """Count the messages in the stream; -1 while NATS can't say."""
        try:
            return (await (await self.admin.connected()).jetstream().stream_info(DELIVER)).state.messages
        except NatsError:
            return -1

    async def consumer(self) -> ConsumerInfo:
        client = await self.admin.connected()
        info: ConsumerInfo = await client.jetstream().consumer_info(DELIVER, f"deliverd-{self.channel}")
        return info

    async def handed_out(self) -> int:
        """How many messages JetStream has handed out, each redelivery counted anew."""
        delivered = (await self.consumer()).delivered
        return 0 if delivered is None else int(delivered.consumer_seq)

    async def empty(self) -> Books:
        """Wait until nothing is left in the stream; then each accepted delivery has one outcome."""
        await eventually(self.left, 0, within_s=EMPTY_WITHIN_S)
        return await balanced(self.servers.store, self.accepted)

    async def settled_once(self, service: Program, before: int = 0) -> None:
        """Check that this process settled each message that it was handed, and each once.

        Args:
            service: the process. Its connection was never broken: what it was handed is what JetStream handed out.
            before: how many messages had been handed out when it started.
        """
        handed_out = await self.handed_out() - before
        settled = await service.metric("ba_delivery_messages_settled_total")
        print(f"settled {settled:g} of {handed_out} messages handed out: {dict(self.witness.words)}")
        assert settled == handed_out
        assert self.witness.twice() == []

    def calls(self, fault: str) -> Counter[str]:
        """Count the calls to each target on which the provider did this; an empty word is an answer."""
        return self._count_calls(lambda call: call["fault"] == fault)

    def sends(self) -> Counter[str]:
        """Count how often the provider took the message of each target."""
        return self._count_calls(lambda call: call["status"] == HTTPStatus.OK)

    def _count_calls(self, counts: Callable[[dict[str, Any]], bool]) -> Counter[str]:
        names = {str(identifier): name for identifier, name in self.accepted.items()}
        return Counter(names[call["id"]] for call in self.provider.received(limit=100_000) if counts(call))


@asynccontextmanager
async def rig(channel: str, servers: Servers, accepted: dict[UUID, str] | None = None) -> AsyncIterator[Rig]:
    """Stand everything up around a channel's service, which the test starts itself.

    Args:
        channel: which one.
        servers: what it stands on.
        accepted: the deliveries published so far, when another channel stands on these servers too.
    """
    async with AsyncExitStack() as stack:
        key = servers.folder / "account.json"
        provider: Provider = FakeFcm(credentials_file=key) if channel == "fcm" else FakeTelegram()
        await stack.enter_async_context(provider)
        nats = await stack.enter_async_context(FaultProxy("127.0.0.1", servers.bus.port))
        postgres = await stack.enter_async_context(FaultProxy("127.0.0.1", servers.postgres.port))
        admin = await stack.enter_async_context(connection(servers.bus.url()))
        listening = await stack.enter_async_context(witness(await admin.connected(), f"deliverd-{channel}"))
        settings = {
            "BA_NATS_URL": replace(servers.bus, port=nats.port).url(f"deliverd_{channel}"),
            f"BA_{channel.upper()}_TIMEOUT_S": PATIENCE_S,
            "BA_PG_DSN": replace(servers.postgres, port=postgres.port).dsn(servers.dsn.rpartition("/")[2]),
        }
        if isinstance(provider, FakeFcm):
            settings |= {"BA_FCM_CREDENTIALS_FILE": str(key), "BA_FCM_BASE_URL": provider.url}
        else:
            settings |= {"BA_TELEGRAM_BOT_TOKEN": provider.token, "BA_TELEGRAM_BASE_URL": provider.url}
        accepted = {} if accepted is None else accepted
        yield Rig(channel, servers, provider, admin, nats, postgres, settings, listening, accepted)


@asynccontextmanager
async def both_channels(servers: Servers) -> AsyncIterator[tuple[Rig, Rig]]:
    """Stand both channels up side by side. Their books are one: wait for them when everything is published."""
    accepted: dict[UUID, str] = {}
    async with rig("fcm", servers, accepted) as fcm, rig("telegram", servers, accepted) as telegram:
        yield fcm, telegram
