import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from announce.bus.settings import StreamSettings
from announce.bus.setup import create_streams
from announce.bus.streams import ALERTS, DELIVER
from announce.store.database import Database
from announce.store.subscriptions import Subscription, save_subscriptions
from tests.eventually import eventually
from tests.ingest import COMPANY, Producer, create_producer, envelopes, ingesting, settings
from tests.programs import Program
from tests.servers import Nats, Postgres

SUBSCRIPTIONS = 3000
# So that a fan-out takes its time, and a crash comes in the middle.
SLOW = {"BA_INGESTD_PAGE_SIZE": "25", "BA_INGESTD_PAGES_IN_FLIGHT": "1", "BA_NATS_ACK_WAIT_S": "1"}


@pytest.fixture
async def admin(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url())
    yield client
    await client.close()


@pytest.fixture
async def subscribed(store: Database) -> list[str]:
    """A producer's company with many subscriptions; their addresses."""
    await create_producer(store)
    addresses = [f"tok-{number:05}" for number in range(SUBSCRIPTIONS)]
    await save_subscriptions(store, COMPANY, [Subscription("fcm", address) for address in addresses])
    return addresses


@pytest.fixture
async def ingest_slowly(
    tmp_path: Path, dsn: str, nats_server: Nats, subscribed: list[str]
) -> AsyncIterator[tuple[Program, Producer]]:
    assert subscribed
    async with ingesting(tmp_path, settings(dsn, nats_server, **SLOW)) as running:
        yield running


async def count(admin: Client, stream: str = DELIVER) -> int:
    return (await admin.jetstream().stream_info(stream)).state.messages


async def unfinished(store: Database) -> int:
    async with store.connection() as connection:
        found = await connection.fetchval("SELECT count(*) FROM alerts WHERE fanned_out_at IS NULL")
        return int(found)


async def some_way(admin: Client, least: int) -> None:
    """Wait until a fan-out has come some way, but not to its end."""

    async def there() -> bool:
        return await count(admin) >= least

    await eventually(there, expected=True)
    assert await count(admin) < SUBSCRIPTIONS


async def tokens(admin: Client) -> Counter[str]:
    return Counter(str(each.target["token"]) for each in await envelopes(admin.jetstream()))


async def test_killed_in_the_middle_it_goes_on_and_everyone_gets_one(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, subscribed: list[str], admin: Client
) -> None:
    async with ingesting(tmp_path, settings(dsn, nats_server, **SLOW)) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await some_way(admin, 500)
        await program.kill()
    assert await unfinished(store) == 1
    async with ingesting(tmp_path, settings(dsn, nats_server, **SLOW)):
        await eventually(lambda: unfinished(store), 0)
        await eventually(lambda: count(admin, ALERTS), 0)
    assert await tokens(admin) == Counter(subscribed)
    assert await saved(store) == SUBSCRIPTIONS


async def saved(store: Database) -> int:
    """How many deliveries the alert's row tells of."""
    async with store.connection() as connection:
        return int(await connection.fetchval("SELECT deliveries FROM alerts") or 0)


async def halfway(admin: Client, store: Database) -> None:
    """Wait until a fan-out has no more room in BA_DELIVER, and has remembered how far it came."""

    async def stuck() -> bool:
        before = await count(admin), await saved(store)
        await asyncio.sleep(0.5)  # twice the time after which progress is written
        return before == (await count(admin), await saved(store)) and before[1] > 0

    await eventually(stuck, expected=True)
    assert await count(admin) < SUBSCRIPTIONS
    assert await unfinished(store) == 1


async def test_it_goes_on_where_it_had_come_to(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, subscribed: list[str], admin: Client
) -> None:
    await create_streams(admin.jetstream(), StreamSettings(nats_deliver_max_bytes=1 << 20))
    async with ingesting(tmp_path, settings(dsn, nats_server, **SLOW)) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await halfway(admin, store)
        await program.kill()
    # Without the stream's memory of ids, whatever is published again would be there again.
    await admin.jetstream().delete_stream(DELIVER)
    await create_streams(admin.jetstream(), StreamSettings())
    before = await saved(store)
    async with ingesting(tmp_path, settings(dsn, nats_server, **SLOW)):
        await eventually(lambda: unfinished(store), 0)
    assert await tokens(admin) == Counter(subscribed[before:])
    assert await saved(store) == SUBSCRIPTIONS


async def test_asked_to_stop_it_hands_back_what_does_not_end_in_time(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, subscribed: list[str], admin: Client
) -> None:
    await create_streams(admin.jetstream(), StreamSettings(nats_deliver_max_bytes=1 << 20))
    environment = settings(dsn, nats_server, **SLOW | {"BA_NATS_ACK_WAIT_S": "30"}, BA_SHUTDOWN_GRACE_S="0.1")
    async with ingesting(tmp_path, environment) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await halfway(admin, store)
        assert await program.terminate() == 0
        assert '"handed_back":1' in program.log.read_text()
    await create_streams(admin.jetstream(), StreamSettings())
    async with ingesting(tmp_path, environment):
        # Long before the ack wait has passed.
        await eventually(lambda: unfinished(store), 0, within_s=15)
    assert await tokens(admin) == Counter(subscribed)


async def test_asked_to_stop_it_lets_end_what_can(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, subscribed: list[str], admin: Client
) -> None:
    environment = settings(dsn, nats_server, **SLOW | {"BA_INGESTD_PAGE_SIZE": "100"})
    async with ingesting(tmp_path, environment) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await some_way(admin, 100)
        assert await program.terminate() == 0
        assert '"handed_back":0' in program.log.read_text()
    assert await unfinished(store) == 0
    assert await tokens(admin) == Counter(subscribed)


async def test_it_waits_for_room_in_jetstream_and_then_goes_on(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, subscribed: list[str], admin: Client
) -> None:
    await create_streams(admin.jetstream(), StreamSettings(nats_deliver_max_bytes=1 << 20))
    async with ingesting(tmp_path, settings(dsn, nats_server, BA_NATS_ACK_WAIT_S="1")) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await halfway(admin, store)
        assert await program.metric("ba_fanout_envelopes_total") == await count(admin)
        await create_streams(admin.jetstream(), StreamSettings())
        await eventually(lambda: unfinished(store), 0)
        await eventually(lambda: count(admin, ALERTS), 0)
        assert await program.metric("ba_fanout_envelopes_total") == SUBSCRIPTIONS
    assert await tokens(admin) == Counter(subscribed)


async def test_the_database_may_go_away_in_the_middle(
    ingest_slowly: tuple[Program, Producer],
    postgres_server: Postgres,
    store: Database,
    subscribed: list[str],
    admin: Client,
) -> None:
    program, producer = ingest_slowly
    assert (await producer.post({"title": "t"})).status == 202
    await some_way(admin, 200)
    postgres_server.kill()
    postgres_server.start()
    await store.wait()
    await eventually(lambda: unfinished(store), 0, within_s=30)
    await eventually(lambda: count(admin, ALERTS), 0)
    assert "alert failed" not in program.log.read_text()
    assert await tokens(admin) == Counter(subscribed)


async def test_nats_may_go_away_in_the_middle(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, subscribed: list[str], admin: Client
) -> None:
    async with ingesting(tmp_path, settings(dsn, nats_server, **SLOW)) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await some_way(admin, 200)
        nats_server.kill()
        nats_server.start()
        await program.readiness(200)
        await eventually(lambda: unfinished(store), 0, within_s=30)
        await eventually(lambda: count(admin, ALERTS), 0)
        assert "alert failed" not in program.log.read_text()
    assert await tokens(admin) == Counter(subscribed)


@pytest.mark.usefixtures("subscribed")
async def test_small_alerts_do_not_wait_for_large_ones(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, admin: Client
) -> None:
    await create_producer(store, "small", "key-s")
    environment = settings(dsn, nats_server, **SLOW, BA_INGESTD_LARGE_FANOUTS="1", BA_INGESTD_MAX_ALERTS_HELD="8")
    async with ingesting(tmp_path, environment) as (program, producer):
        small = Producer(program.url, producer.session, key_id="key-s")
        for number in range(10):
            assert (await producer.post({"title": f"large {number}"})).status == 202
        await some_way(admin, 40)
        answer = await small.post({"title": "small", "targets": [{"channel": "telegram", "chat_id": 7}]})
        assert answer.status == 202

        async def arrived() -> float:
            return await program.metric("ba_fanout_envelopes_total", channel="telegram")

        await eventually(arrived, 1.0)
        assert await unfinished(store) >= 3
        assert await program.metric("ba_fanout_envelopes_total", channel="fcm") < 2 * SUBSCRIPTIONS


@pytest.mark.usefixtures("subscribed")
async def test_one_address_named_twice_and_subscribed_gets_one(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, admin: Client
) -> None:
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (_, producer):
        answer = await producer.post({"title": "t", "targets": [{"channel": "fcm", "token": "tok-00001"}] * 3})
        assert answer.status == 202
        await eventually(lambda: unfinished(store), 0)
        await eventually(lambda: count(admin, ALERTS), 0)
    assert await tokens(admin) == Counter(["tok-00001"])


async def test_an_alert_for_nobody_ends_too(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, admin: Client
) -> None:
    await create_producer(store)
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (program, producer):
        assert (await producer.post({"title": "t"})).status == 202
        await eventually(lambda: program.metric("ba_fanout_seconds_count"), 1.0)
        await eventually(lambda: count(admin, ALERTS), 0)
    assert await unfinished(store) == 0
    assert await count(admin) == 0
