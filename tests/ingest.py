"""ingestd as tests run it, and a producer that speaks to it."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from announce.bus.streams import DELIVER
from announce.model.envelope import Envelope, decode_envelope
from announce.model.signature import signed_headers
from announce.store.cipher import SecretCipher
from announce.store.database import Database
from announce.store.keyring import create_company, create_key
from tests.programs import Program, running
from tests.servers import Nats

COMPANY = "demo"
KEY_ID = "key-1"
SECRET = "made-up"
SECRET_KEYS = "u3Uc-qAi9iiCv3fkBfRUAKrM1gH8w51-nVU8M8A73Jg="
CIPHER = SecretCipher(SECRET_KEYS)


class Answer(NamedTuple):
    """What ingestd answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body, type=dict[str, Any])

    def lines(self) -> list[dict[str, Any]]:
        return msgspec.json.Decoder(dict[str, Any]).decode_lines(self.body)

    @property
    def kind(self) -> str:
        """Which problem it is."""
        assert self.headers["Content-Type"] == "application/problem+json", self
        document = self.json()
        assert document["status"] == self.status
        return str(document["type"]).removeprefix("urn:broad-announce:problem:")


@dataclass(slots=True)
class Producer:
    """Signs and posts."""

    url: str
    session: aiohttp.ClientSession
    key_id: str = KEY_ID
    secret: str = SECRET

    def headers(self, body: bytes, path: str, timestamp: int | None = None) -> dict[str, str]:
        return signed_headers(self.key_id, self.secret.encode(), timestamp or int(time.time()), path, body)

    async def send(self, body: bytes, headers: Mapping[str, str], path: str = "/v1/alerts") -> Answer:
        async with self.session.post(self.url + path, data=io.BytesIO(body), headers=headers) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    async def post(self, alert: object, path: str = "/v1/alerts") -> Answer:
        body = alert if isinstance(alert, bytes) else msgspec.json.encode(alert)
        return await self.send(body, self.headers(body, path), path)

    async def post_batch(self, *lines: object) -> Answer:
        body = b"\n".join(line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines)
        return await self.post(body, "/v1/alerts:batch")


def settings(dsn: str, nats_server: Nats, **more: str) -> dict[str, str]:
    """The environment that ingestd needs."""
    return {"BA_SECRET_KEYS": SECRET_KEYS, "BA_PG_DSN": dsn, "BA_NATS_URL": nats_server.url("ingestd"), **more}


async def create_producer(store: Database, company_id: str = COMPANY, key_id: str = KEY_ID) -> None:
    """Create a company with a key."""
    await create_company(store, company_id, company_id)
    await create_key(store, CIPHER, company_id, key_id, SECRET)


@asynccontextmanager
async def ingesting(
    folder: Path, environment: Mapping[str, str], *, ready: bool = True
) -> AsyncIterator[tuple[Program, Producer]]:
    """Run ingestd for the length of the block, with a producer."""
    async with running("ingestd", folder, environment, ready=ready) as program, aiohttp.ClientSession() as session:
        yield program, Producer(program.url, session)


async def envelopes(context: JetStreamContext) -> list[Envelope]:
    """Return every delivery that waits in BA_DELIVER, in order."""
    state = (await context.stream_info(DELIVER)).state
    room = asyncio.Semaphore(100)

    async def envelope(seq: int) -> Envelope | None:
        try:
            async with room:
                return decode_envelope((await context.get_msg(DELIVER, seq)).data or b"")
        except NotFoundError:
            return None

    found = await asyncio.gather(*map(envelope, range(max(state.first_seq, 1), state.last_seq + 1)))
    return [each for each in found if each is not None]
