"""The demo company's two producers: one that signs HTTP requests, one with a NATS account of its own."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import nats
from aiohttp import ClientSession
from nats.js import JetStreamContext
from yarl import URL

from announce.bus.streams import alerts_subject
from announce.model.envelope import MSG_ID_HEADER
from announce.model.signature import signed_headers
from announce_stack.demo.sending import Answer, Sending

ALERTS = "/v1/alerts"
BATCH = "/v1/alerts:batch"
ANOTHER_SECRET = b"not the key's secret"
CONNECT_TIMEOUT_S = 5
ACCEPTED = "accepted"

Document = Mapping[str, Any]


class HttpProducer:
    """Signs what it posts with the demo company's key."""

    def __init__(self, session: ClientSession, environment: Mapping[str, str]) -> None:
        self._session = session
        self._url = environment["BA_INGESTD_URL"]
        self._key_id = environment["BA_DEMO_KEY_ID"]
        self._secret = environment["BA_DEMO_SECRET"].encode()

    async def send(self, sending: Sending) -> Answer:
        """Posts one alert, or several as a batch.

        Raises:
            ClientError: there was no answer.
        """
        path = BATCH if len(sending.alerts) > 1 else ALERTS
        body = msgspec.json.Encoder().encode_lines(sending.alerts)
        secret = ANOTHER_SECRET if sending.forged else self._secret
        headers = signed_headers(self._key_id, secret, int(time.time()), path, body)
        sent_ns = time.monotonic_ns()
        async with self._session.post(URL(self._url + path, encoded=True), data=body, headers=headers) as response:
            content = await response.read()
        took_ms = (time.monotonic_ns() - sent_ns) / 1e6
        documents = msgspec.json.Decoder(dict[str, Any]).decode_lines(content)
        accepted = frozenset(line["alert_id"] for line in documents if line.get("status") == ACCEPTED)
        return Answer(f"{response.status}{_words(documents)}", accepted, sent_ns // 1000, took_ms)


def _words(documents: list[dict[str, Any]]) -> str:
    if len(documents) == 1:
        return f" {_verdict(documents[0])}" + _fields(documents[0])
    return ": " + ", ".join(f"{count} {verdict}" for verdict, count in Counter(map(_verdict, documents)).items())


def _verdict(document: Document) -> str:
    """The status of an alert that was taken in, or the kind of the problem with one that was not."""
    problem = document.get("problem", document)
    kind = str(problem.get("type", "")).rpartition(":")[2]
    return kind or str(document["status"])


def _fields(document: Document) -> str:
    names = [error["field"] for error in document.get("errors", ())]
    return f": {', '.join(names)}" if names else ""


class NatsProducer:
    """Publishes on the demo company's subject, which is all that its account may do."""

    def __init__(self, jetstream: JetStreamContext, company: str) -> None:
        self._jetstream = jetstream
        self._company = company

    async def send(self, sending: Sending) -> Answer:
        """Publishes one alert, and waits until JetStream has it.

        The message's id is the one that ingestd gives to the same alert, so that JetStream knows a repeat by itself.

        Raises:
            nats.errors.Error: JetStream did not take it.
        """
        [alert] = sending.alerts
        alert_id = str(alert["alert_id"])
        body, headers = msgspec.json.encode(alert), {MSG_ID_HEADER: f"{self._company}:{alert_id}"}
        sent_ns = time.monotonic_ns()
        ack = await self._jetstream.publish(alerts_subject(self._company), body, headers=headers)
        took_ms = (time.monotonic_ns() - sent_ns) / 1e6
        if ack.duplicate:
            return Answer("ack, duplicate", frozenset(), sent_ns // 1000, took_ms)
        return Answer("ack", frozenset([alert_id]), sent_ns // 1000, took_ms)


@asynccontextmanager
async def nats_producer(environment: Mapping[str, str]) -> AsyncIterator[NatsProducer]:
    """The demo company's NATS producer, connected for the length of the block."""
    url = environment["BA_NATS_PRODUCER_URL"]
    client = await nats.connect(url, connect_timeout=CONNECT_TIMEOUT_S, allow_reconnect=False)
    try:
        yield NatsProducer(client.jetstream(), environment["BA_DEMO_COMPANY"])
    finally:
        await client.close()
