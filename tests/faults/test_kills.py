"""Alerts at full speed while services and nats-server are killed: nothing that was accepted is lost."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp
import msgspec
import pytest

from announce.model.signature import signed_headers
from announce.store.database import database
from announce.store.settings import StoreSettings
from tests.eventually import eventually
from tests.faults.conftest import RunningStack

PRODUCERS = 64
PATH = "/v1/alerts"


@dataclass(slots=True)
class Producers:
    """Producers that repeat an alert until it is accepted, as the contract tells them to."""

    environment: dict[str, str]
    total: int
    accepted: int = 0
    repeated: int = 0
    reached: dict[int, asyncio.Event] = field(default_factory=dict)

    async def run(self) -> None:
        numbers = iter(range(self.total))
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            for _ in range(PRODUCERS):
                group.create_task(self._produce(session, numbers))

    async def _produce(self, session: aiohttp.ClientSession, numbers: Iterator[int]) -> None:
        for number in numbers:
            alert = {
                "alert_id": f"alert-{number}",
                "title": "t",
                "targets": [{"channel": "fcm", "token": f"token-{number}"}],
            }
            while not await self._send(session, msgspec.json.encode(alert)):
                self.repeated += 1
                await asyncio.sleep(0.1)
            self.accepted += 1
            if self.accepted in self.reached:
                self.reached[self.accepted].set()

    async def _send(self, session: aiohttp.ClientSession, body: bytes) -> bool:
        environment = self.environment
        headers = signed_headers(
            environment["BA_DEMO_KEY_ID"], environment["BA_DEMO_SECRET"].encode(), int(time.time()), PATH, body
        )
        try:
            async with session.post(environment["BA_INGESTD_URL"] + PATH, data=body, headers=headers) as response:
                assert response.status in {202, 503}, await response.text()
                return response.status == 202
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def when(self, share: float) -> None:
        """Wait until so much of everything has been accepted."""
        number = int(self.total * share)
        if self.accepted < number:
            await self.reached.setdefault(number, asyncio.Event()).wait()


@pytest.mark.timeout(600)
async def test_every_accepted_alert_arrives_whatever_is_killed(
    breakable_stack: RunningStack, request: pytest.FixtureRequest
) -> None:
    total: int = request.config.getoption("--alerts")
    environment = breakable_stack.environment()
    producers = Producers(environment, total)

    async def kill_in_turn() -> None:
        for name, share in (("ingestd", 0.25), ("deliverd_fcm", 0.5), ("nats", 0.75)):
            await producers.when(share)
            await asyncio.to_thread(breakable_stack.run, "kill", name)
            await asyncio.to_thread(breakable_stack.run, "start", name)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(kill_in_turn())
        group.create_task(producers.run())
    sent_in_s = time.monotonic() - began

    async with aiohttp.ClientSession() as session, database(StoreSettings(pg_dsn=environment["BA_PG_DSN"])) as store:

        async def recorded() -> int:
            query = "SELECT count(DISTINCT alert_id) FROM deliveries WHERE status = 'sent'"
            async with store.connection() as connection:
                return int(await connection.fetchval(query))

        await eventually(recorded, total, within_s=120)
        async with session.get(environment["BA_FAKE_FCM_URL"] + "/received?summary=1") as response:
            summary = await response.json()
        async with store.connection() as connection:
            failed = await connection.fetchval("SELECT count(*) FROM deliveries_dlq")
    print(
        f"{total} alerts in {sent_in_s:.1f} s, {producers.repeated} requests repeated; "
        f"{summary['total']} calls to the provider, {summary['repeats']} of them repeats"
    )
    assert summary["ids"] == total
    assert failed == 0
    # Only what was on its way at the moment of a kill may arrive again.
    assert summary["repeats"] <= 3 * 256
