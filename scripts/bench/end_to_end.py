#!/usr/bin/env python
"""From a producer's request to the provider's receipt, through the whole stack.

Two figures from one run: how long an alert takes at a steady rate, and how many a second pass at full speed. Starts a
stack with the fakes in a temporary folder and takes it down at the end.
"""

import argparse
import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec
import uvloop

from announce.model.signature import signed_headers
from announce_stack.bench import milliseconds, running_stack

PATH: Final = "/v1/alerts"
PRODUCERS: Final = 64
WARM_UP: Final = 100
ARRIVED_WITHIN_S: Final = 120


@dataclass(frozen=True, slots=True)
class Sent:
    """An accepted alert: when its request began and when its 202 was there, Unix seconds."""

    token: str
    began: float
    accepted: float


class Producer:
    """Sends alerts to one FCM token each, and knows what reached the fake."""

    def __init__(self, environment: dict[str, str], session: aiohttp.ClientSession) -> None:
        self._environment = environment
        self._session = session

    async def send(self, token: str) -> Sent:
        """Send one alert."""
        environment = self._environment
        alert = {"title": "Disk almost full", "body": "db-3", "targets": [{"channel": "fcm", "token": token}]}
        body = msgspec.json.encode(alert)
        began = time.time()
        headers = signed_headers(
            environment["BA_DEMO_KEY_ID"], environment["BA_DEMO_SECRET"].encode(), int(began), PATH, body
        )
        async with self._session.post(environment["BA_INGESTD_URL"] + PATH, data=body, headers=headers) as response:
            response.raise_for_status()
            await response.read()
        return Sent(token, began, time.time())

    async def receipts(self, count: int) -> dict[str, float]:
        """Wait until the fake has had so many messages; return when each token had its own, Unix seconds."""
        url = self._environment["BA_FAKE_FCM_URL"] + "/received"
        async with asyncio.timeout(ARRIVED_WITHIN_S):
            while (await self._get(f"{url}?summary=1"))["accepted"] < count:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        entries = (await self._get(f"{url}?limit={count}"))["received"]
        return {entry["target"]: entry["wall_us"] / 1e6 for entry in entries}

    async def clear(self) -> None:
        """Make the fake forget what it has had."""
        await self._get(self._environment["BA_FAKE_FCM_URL"] + "/control?clear_received=1")

    async def _get(self, url: str) -> dict[str, Any]:
        async with self._session.get(url) as response:
            return msgspec.json.decode(await response.read(), type=dict[str, Any])


async def steady(producer: Producer, rate: float, seconds: float) -> None:
    """Send at a steady rate, whatever the answers take, and print how long alerts took."""
    await producer.clear()
    loop = asyncio.get_running_loop()
    begun, tasks = loop.time(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(begun + number / rate - loop.time(), 0))
        tasks.append(asyncio.create_task(producer.send(f"steady-{number}")))
    sent = await asyncio.gather(*tasks)
    receipts = await producer.receipts(len(sent))
    print(f"{len(sent)} alerts at {rate:.0f}/s")
    print("  " + milliseconds("request to 202", [each.accepted - each.began for each in sent]))
    print("  " + milliseconds("202 to the provider's receipt", [receipts[each.token] - each.accepted for each in sent]))
    print(
        "  " + milliseconds("request to the provider's receipt", [receipts[each.token] - each.began for each in sent])
    )


async def full_speed(producer: Producer, count: int) -> None:
    """Send as fast as answers come, and print how many passed a second."""
    await producer.clear()
    numbers = iter(range(count))

    async def produce() -> list[Sent]:
        return [await producer.send(f"full-{number}") for number in numbers]

    sent = [each for some in await asyncio.gather(*(produce() for _ in range(PRODUCERS))) for each in some]
    receipts = await producer.receipts(count)
    begun = min(each.began for each in sent)
    accepted_in, received_in = max(each.accepted for each in sent) - begun, max(receipts.values()) - begun
    print(f"{count} alerts at full speed from {PRODUCERS} producers at once")
    print(f"  accepted {count / accepted_in:,.0f}/s, received {count / received_in:,.0f}/s")


async def measure(environment: dict[str, str], arguments: argparse.Namespace) -> None:
    """Warm up, then run both parts."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        producer = Producer(environment, session)
        for number in range(WARM_UP):
            await producer.send(f"warm-{number}")
        await producer.receipts(WARM_UP)
        await steady(producer, arguments.rate, arguments.seconds)
        await full_speed(producer, arguments.burst)


def main() -> None:
    """Run the scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50, help="alerts a second (default: 50)")
    parser.add_argument("--seconds", type=float, default=20, help="for how long (default: 20)")
    parser.add_argument("--burst", type=int, default=10_000, help="alerts at full speed (default: 10,000)")
    arguments = parser.parse_args()
    with running_stack() as environment:
        uvloop.run(measure(environment, arguments))


if __name__ == "__main__":
    main()
