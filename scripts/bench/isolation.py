#!/usr/bin/env python
"""What one company feels of another's trouble: its deliveries alone, and beside a company whose targets all hang.

Publishes envelopes straight into BA_DELIVER, so that nothing but the channel's service and its provider is measured:
first a small company at a steady rate by itself, then the same while a large company has its deliveries waiting, every
one of which hangs at the provider until the call's time limit. Starts a stack with the fakes in a temporary folder and
takes it down at the end.
"""

import argparse
import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import msgspec
import uvloop

from announce.bus.connection import connection
from announce.bus.publisher import MAX_BATCH, OutgoingMessage, Publisher
from announce.bus.streams import deliver_subject
from announce.model.alert import Severity
from announce.model.envelope import Envelope, Message, encode_envelope
from announce.model.identity import delivery_id
from announce_stack.bench import milliseconds, percentile, running_stack

LARGE: Final = "large"
SMALL: Final = "small"
HANGING: Final = "hang-"
WARM_UP: Final = 100
ARRIVED_WITHIN_S: Final = 120


def envelopes(company_id: str, tokens: Iterable[str]) -> list[OutgoingMessage]:
    """Make one delivery for each token."""
    text = Message(title="Disk almost full", body="db-3", severity=Severity.WARNING, data={}, collapse_key=None)
    made = []
    for token in tokens:
        identifier = delivery_id(company_id, token, "fcm", token)
        envelope = Envelope(
            delivery_id=identifier,
            alert_id=token,
            company_id=company_id,
            channel="fcm",
            target={"channel": "fcm", "token": token},
            message=text,
            created_at=datetime.now(UTC),
            expires_at=None,
        )
        made.append(OutgoingMessage(deliver_subject("fcm", company_id), encode_envelope(envelope), str(identifier)))
    return made


class Bench:
    """A stack, a publisher into it, and what its fake provider has had."""

    def __init__(self, environment: Mapping[str, str], publisher: Publisher, session: aiohttp.ClientSession) -> None:
        self._fake = environment["BA_FAKE_FCM_URL"]
        self._publisher = publisher
        self._session = session

    async def control(self, query: str) -> None:
        """Script the fake."""
        await self._get(f"/control?{query}")

    async def pile_up(self, count: int) -> None:
        """Put the large company's deliveries into the stream."""
        messages = envelopes(LARGE, (f"{HANGING}{number}" for number in range(count)))
        for first in range(0, count, MAX_BATCH):
            await self._publisher.publish_all(messages[first : first + MAX_BATCH])

    async def steady(self, name: str, rate: float, seconds: float) -> list[float]:
        """Send the small company's at a steady rate; return how long each took to its receipt, in seconds."""
        loop = asyncio.get_running_loop()
        begun, sent = loop.time(), dict[str, float]()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(begun + number / rate - loop.time(), 0))
            token = f"{name}-{number}"
            sent[token] = time.time()
            await self._publisher.publish(*envelopes(SMALL, [token]))
        receipts = await self._receipts(f"{name}-", len(sent))
        return [receipts[token] - at for token, at in sent.items()]

    async def _receipts(self, prefix: str, count: int) -> dict[str, float]:
        async with asyncio.timeout(ARRIVED_WITHIN_S):
            while True:
                entries = (await self._get("/received?limit=20000"))["received"]
                found = {
                    entry["target"]: entry["wall_us"] / 1e6 for entry in entries if entry["target"].startswith(prefix)
                }
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.2)

    async def _get(self, path: str) -> dict[str, Any]:
        async with self._session.get(self._fake + path) as response:
            return msgspec.json.decode(await response.read(), type=dict[str, Any])


async def measure(environment: Mapping[str, str], arguments: argparse.Namespace) -> None:
    """Run both parts."""
    async with aiohttp.ClientSession() as session, connection(environment["BA_NATS_URL"]) as bus:
        await bus.connected()
        bench = Bench(environment, Publisher(bus), session)
        await bench.steady("warm", WARM_UP, 1)
        alone = await bench.steady("alone", arguments.rate, arguments.seconds)
        await bench.control(f"target={HANGING}*&hang=1")
        await bench.pile_up(arguments.waiting)
        await asyncio.sleep(arguments.settle)
        beside = await bench.steady("beside", arguments.rate, arguments.seconds)
        print(milliseconds("alone", alone))
        print(milliseconds(f"beside {arguments.waiting:,} that hang", beside))
        print(f"p99 beside / p99 alone: {percentile(beside, 99) / percentile(alone, 99):.2f}")


def main() -> None:
    """Run the scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=20, help="deliveries a second (default: 20)")
    parser.add_argument("--seconds", type=float, default=30, help="for how long (default: 30)")
    parser.add_argument("--waiting", type=int, default=50_000, help="deliveries that hang (default: 50,000)")
    parser.add_argument("--settle", type=float, default=0, help="seconds between piling up and measuring (default: 0)")
    arguments = parser.parse_args()
    with running_stack() as environment:
        uvloop.run(measure(environment, arguments))


if __name__ == "__main__":
    main()
