import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import nats
import pytest

from announce.bus.streams import ALERTS
from announce.model.alert import Severity
from announce.runtime.background import background
from announce.store.alerts import AcceptedAlert, AlertKey, register_alerts
from announce.store.database import Database
from announce.store.keyring import create_key
from ingestd.trimming import keep_trimming
from tests.eventually import eventually
from tests.ingest import CIPHER, COMPANY, create_producer, ingesting, settings
from tests.programs import Program, running
from tests.servers import Nats

ALERT = {"title": "t", "targets": [{"channel": "fcm", "token": "tok"}]}


async def dependencies(program: Program) -> dict[str, str]:
    _, text = await program.get("/readyz")
    found: dict[str, str] = json.loads(text)["dependencies"]
    return found


async def test_it_waits_for_what_is_away_at_its_start(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> None:
    nats_server.kill()
    async with ingesting(tmp_path, settings(dsn, nats_server), ready=False) as (program, producer):
        assert '"nats":"ok"' not in await program.readiness(503)
        assert (await program.get("/healthz"))[0] == 200
        await eventually(lambda: dependencies_but_nats(program), {"ok"})
        nats_server.start()
        await program.readiness(200)
        await create_producer(store)

        async def status() -> int:
            return (await producer.post(ALERT)).status

        await eventually(status, 202)


async def dependencies_but_nats(program: Program) -> set[str]:
    return {reason for name, reason in (await dependencies(program)).items() if name != "nats"}


async def test_asked_to_stop_while_nats_is_away_it_stops(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> None:
    await create_producer(store)
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (program, _):
        nats_server.kill()
        await program.readiness(503)
        begun = time.monotonic()
        assert await program.terminate() == 0
        assert time.monotonic() - begun < 10


async def test_requests_under_way_are_answered_before_it_stops(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> None:
    await create_producer(store)
    frozen = nats_server.supervisor.running()["nats"].process
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (program, producer):
        assert (await producer.post(ALERT)).status == 202
        frozen.send(SIGSTOP)
        try:
            answers = [asyncio.create_task(producer.post({"title": f"t-{number}"})) for number in range(5)]
            await eventually(lambda: program.metric("ba_ingest_requests_under_way"), 5.0)
            stopped = asyncio.create_task(program.terminate())
            await eventually(lambda: refuses(program.url), expected=True)
        finally:
            frozen.send(SIGCONT)
        assert [(await answer).status for answer in answers] == [202] * 5
        assert await stopped == 0


async def refuses(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return True
    writer.close()
    await writer.wait_closed()
    return False


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("BA_INGESTD_LISTEN", "8080", "BA_INGESTD_LISTEN: Value error, must be host:port"),
        ("BA_INGESTD_DEDUPE_WINDOW_S", "-1", "BA_INGESTD_DEDUPE_WINDOW_S: Input should be greater than"),
        ("BA_SECRET_KEYS", "", "BA_SECRET_KEYS: "),
        ("BA_SECRET_KEYS", "not a key", "BA_SECRET_KEYS: "),
    ],
)
async def test_a_wrong_setting_stops_the_start_with_one_line(
    tmp_path: Path, dsn: str, nats_server: Nats, name: str, value: str, told: str
) -> None:
    environment = settings(dsn, nats_server) | {name: value}
    async with running("ingestd", tmp_path, environment, ready=False) as program:
        async with asyncio.timeout(20):
            assert await program.process.wait() == 1
        *_, last = program.log.read_text().splitlines()
        assert last.startswith("settings: ")
        assert told in last
        assert value not in last or value in told or not value


async def test_a_database_that_hangs_delays_an_answer_hardly(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> None:
    await create_producer(store)
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (program, producer):
        assert (await producer.post(ALERT)).status == 202
        async with store.transaction() as connection:
            await connection.execute("LOCK TABLE alert_dedupe IN ACCESS EXCLUSIVE MODE")
            begun = time.monotonic()
            answers = [await producer.post(ALERT | {"alert_id": f"a-{number}"}) for number in range(20)]
            seconds = time.monotonic() - begun
        assert [answer.status for answer in answers] == [202] * 20
        # The first one waits for a quarter of a second, the others know.
        assert seconds < 2
        await eventually(lambda: program.metric("ba_fanout_envelopes_total"), 21.0, within_s=40)


async def test_remembered_alerts_are_forgotten_after_the_window(store: Database) -> None:
    now = datetime.now(UTC)
    alerts = [
        AcceptedAlert(
            AlertKey("demo", f"a-{number}"), now - timedelta(seconds=age), number, b"", Severity.INFO, "t", None,
            b"{}", "",
        )
        for number, age in enumerate([*[200] * 2500, *[0] * 10])
    ]  # fmt: skip
    await register_alerts(store, alerts, 1000)

    async def remembered() -> int:
        async with store.connection() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM alert_dedupe"))

    assert await remembered() == 2510
    async with background(keep_trimming(store, 100, interval_s=0.1)):
        await eventually(remembered, 10)


async def test_many_companies_keys_and_alerts_at_once(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> None:
    await create_producer(store)
    for number in range(2, 6):
        await create_key(store, CIPHER, COMPANY, f"key-{number}", "made-up")
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (program, producer):

        async def send(number: int) -> int:
            return (await producer.post(ALERT | {"alert_id": f"a-{number}"})).status

        assert set(await asyncio.gather(*map(send, range(1000)))) == {202}
        await eventually(lambda: program.metric("ba_fanout_envelopes_total"), 1000.0)
        client = await nats.connect(nats_server.url())

        async def left() -> int:
            return (await client.jetstream().stream_info(ALERTS)).state.messages

        await eventually(left, 0)
        await client.close()
        assert await program.metric("ba_ingest_alerts_held") == 0
