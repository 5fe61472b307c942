import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from announce.bus.connection import connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.settings import BusSettings
from announce.bus.streams import ALERTS, durable_consumer
from announce.model.reason import Reason
from announce.runtime.background import background
from announce.store.alerts import Arrival
from announce.store.database import Database
from ingestd.arrival import Arrived, Refusal, read_arrival
from ingestd.register import Register
from tests.eventually import eventually
from tests.ingest import Producer, create_producer, envelopes, ingesting, settings
from tests.programs import Program
from tests.servers import Nats, Postgres

TARGETS = [{"channel": "fcm", "token": "tok"}]
ALERT = {"alert_id": "a-1", "title": "Disk full", "targets": TARGETS}
SUBJECT = "ba.alerts.demo"


@pytest.fixture
async def producer(nats_server: Nats) -> AsyncIterator[Client]:
    """The demo company's producer."""
    client = await nats.connect(nats_server.url("producer-demo"))
    yield client
    await client.close()


@pytest.fixture
async def admin(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url())
    yield client
    await client.close()


async def publish(client: Client, alert: object, subject: str = SUBJECT, **headers: str) -> None:
    payload = alert if isinstance(alert, bytes) else json.dumps(alert).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    await client.jetstream().publish(subject, payload, headers=named or None)


async def delivered(admin: Client) -> list[str]:
    return [each.alert_id for each in await envelopes(admin.jetstream())]


async def waiting(admin: Client) -> int:
    return (await admin.jetstream().stream_info(ALERTS)).state.messages


async def dead_letters(store: Database) -> list[dict[str, Any]]:
    async with store.connection() as connection:
        return [dict(row) for row in await connection.fetch("SELECT * FROM deliveries_dlq ORDER BY created_at, id")]


@pytest.mark.usefixtures("ingest")
async def test_a_producer_s_alert_is_fanned_out(producer: Client, admin: Client, store: Database) -> None:
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    await publish(producer, ALERT, traceparent=trace)
    await eventually(lambda: delivered(admin), ["a-1"])
    await eventually(lambda: waiting(admin), 0)
    async with store.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM alerts")
    assert row is not None
    assert (row["alert_id"], row["title"], row["deliveries"]) == ("a-1", "Disk full", 1)
    assert row["content"] == ALERT
    assert row["traceparent"][:36] == trace[:36]
    assert row["fanned_out_at"] is not None
    message = await admin.jetstream().get_msg("BA_DELIVER", 1)
    assert (message.headers or {})["traceparent"] == row["traceparent"]
    assert (await envelopes(admin.jetstream()))[0].created_at == row["accepted_at"]


async def test_what_comes_twice_is_dropped_and_counted(
    ingest: tuple[Program, Producer], producer: Client, admin: Client, store: Database
) -> None:
    """JetStream's window is passed by: each copy has another message id, or none."""
    program, http = ingest
    await publish(producer, ALERT, Nats_Msg_Id="one")
    await publish(producer, ALERT, Nats_Msg_Id="two")
    await publish(producer, ALERT)
    await eventually(lambda: waiting(admin), 0)
    assert await delivered(admin) == ["a-1"]
    assert await program.metric("ba_ingest_duplicates_total", line="dropped") == 2
    assert await program.metric("ba_ingest_alerts_total", source="nats", result="duplicate") == 2
    assert await dead_letters(store) == []
    assert (await http.post(ALERT)).json()["status"] == "duplicate"
    assert (await http.post(ALERT | {"title": "u"})).status == 409


@pytest.mark.usefixtures("ingest")
async def test_an_alert_without_an_id_is_named_by_its_message(producer: Client, admin: Client) -> None:
    unnamed = {"title": "t", "targets": TARGETS}
    await publish(producer, unnamed, Nats_Msg_Id="job-7")
    await publish(producer, unnamed, Nats_Msg_Id="demo:job-8")
    await publish(producer, unnamed, Nats_Msg_Id="no id at all")
    await publish(producer, unnamed)
    await eventually(lambda: waiting(admin), 0)
    names = await delivered(admin)
    assert len(set(names)) == 4
    assert {"job-7", "job-8"} < set(names)
    assert len([name for name in names if name.startswith("auto-")]) == 2


REFUSED: list[tuple[bytes, Reason, str]] = [
    (b"junk", Reason.NOT_JSON, "not JSON"),
    (b"", Reason.NOT_JSON, "not JSON"),
    (b"\xff\x00", Reason.NOT_JSON, "not UTF-8"),
    ('{"title":"t"}'.encode("utf-16"), Reason.NOT_JSON, "not UTF-8"),
    (b"[]", Reason.NOT_JSON, "an alert is a JSON object"),
    (b'{"title":"","x":1}', Reason.INVALID_ALERT, "title: String should have at least 1 character; x: unknown field"),
    (b'{"title":"\\u0000"}', Reason.INVALID_ALERT, "title: must not contain a NUL character"),
    (b'{"title":"t","data":{"\\u0000":"v"}}', Reason.INVALID_ALERT, "data.\\x00: must not contain a NUL character"),
    (b'{"title":"t","targets":[{"channel":"\\u0000"}]}', Reason.INVALID_ALERT, "targets[0]: channel must be one of"),
    (b'{"title":"t","targets":[{"channel":"\\ud800"}]}', Reason.INVALID_ALERT, "targets[0]: channel must be one of"),
    (b'{"title":"t","n":1e400000}', Reason.INVALID_ALERT, "n: unknown field"),
    (b'{"title":"t","n":1e-400000}', Reason.INVALID_ALERT, "n: unknown field"),
    (b'{"title":"t","n":0.' + b"0" * 20_000 + b"1}", Reason.INVALID_ALERT, "n: unknown field"),
    (b'{"title":"t","n":' + b"9" * 4000 + b"}", Reason.INVALID_ALERT, "n: unknown field"),
    (b'{"title":' + b"[" * 900 + b"]" * 900 + b"}", Reason.INVALID_ALERT, "title: "),
    (b'{"title":"t","company_id":"other"}', Reason.FOREIGN_COMPANY, "company_id: must be the producer's own"),
    (b'{"title":"t","body":"' + b"x" * 65_536 + b'"}', Reason.TOO_LARGE, "alert: must not be more than 65536 bytes"),
    (b'{"alert_id":"taken","title":"u"}', Reason.ALERT_ID_REUSED, "alert_id: was used"),
]


@pytest.mark.usefixtures("ingest")
async def test_what_is_invalid_is_kept_with_its_reason(producer: Client, admin: Client, store: Database) -> None:
    await publish(producer, b'{"alert_id":"taken","title":"t"}')
    await eventually(lambda: waiting(admin), 0)
    for raw, _, _ in REFUSED:
        await publish(producer, raw)
    await eventually(lambda: waiting(admin), 0)
    rows = await dead_letters(store)
    assert [row["reason"] for row in rows] == [reason for _, reason, _ in REFUSED]
    for row, (raw, _, detail) in zip(rows, REFUSED, strict=True):
        assert row["last_error"].startswith(detail)
        assert (row["channel"], row["company_id"], row["original_subject"]) == ("ingest", "demo", SUBJECT)
        assert (row["attempts"], row["delivery_id"], row["target"], row["discarded"]) == (0, None, None, False)
        payload = row["payload"]
        kept = base64.b64decode(payload["raw_base64"]) if "raw_base64" in payload else json.dumps(payload).encode()
        assert kept == raw or json.loads(kept) == json.loads(raw)
    assert await delivered(admin) == []


@pytest.mark.usefixtures("ingest")
async def test_subjects_that_name_no_company_are_kept_too(admin: Client, store: Database) -> None:
    for token in ("*", "Demo", "nobody", "a" * 64):
        await publish(admin, ALERT, f"ba.alerts.{token}")
    await eventually(lambda: waiting(admin), 0)
    assert [(row["company_id"], row["reason"]) for row in await dead_letters(store)] == [
        ("*", "invalid_subject"),
        ("Demo", "invalid_subject"),
        ("nobody", "unknown_company"),
        ("a" * 64, "invalid_subject"),
    ]
    assert await delivered(admin) == []


@pytest.mark.usefixtures("ingest")
async def test_no_header_of_a_producer_s_makes_its_message_go_round(
    producer: Client, nats_server: Nats, admin: Client, store: Database
) -> None:
    await publish(producer, ALERT | {"alert_id": "status"}, Status="100")
    await publish(producer, ALERT | {"alert_id": "ended"}, Status="408", Nats_Pending_Messages="1000")
    await publish(producer, ALERT | {"alert_id": "hash"}, BA_Content_Hash="zz")
    await publish(producer, ALERT | {"alert_id": "trace"}, traceparent="x" * 5000)
    reader, writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
    await reader.readline()
    user = {"user": "producer-demo", "pass": nats_server.passwords["BA_NATS_PRODUCER_DEMO_PASSWORD"], "headers": True}
    writer.write(b"CONNECT " + json.dumps(user | {"verbose": False}).encode() + b"\r\n")
    for number, head in enumerate(
        (
            b"NATS/1.0 \xff\xff\xff\r\n\r\n",
            b"NATS/1.0 100 \xff\xff\r\n\r\n",
            b"NATS/1.0\r\n\xff: \xff\r\n\r\n",
            b"NATS/1.0\r\n: x\r\nno\r\n\r\n",
        )
    ):
        payload = json.dumps(ALERT | {"alert_id": f"raw-{number}"}).encode()
        size = len(head) + len(payload)
        writer.write(b"HPUB ba.alerts.demo %d %d\r\n%b%b\r\n" % (len(head), size, head, payload))
    writer.write(b"PING\r\n")
    while await reader.readline() != b"PONG\r\n":
        pass
    writer.close()
    await publish(producer, ALERT | {"alert_id": "last"})
    await eventually(lambda: waiting(admin), 0)
    assert {"status", "ended", "hash", "trace", "raw-0", "raw-1", "raw-2", "raw-3", "last"} == set(
        await delivered(admin)
    )
    assert await dead_letters(store) == []


async def test_a_company_that_was_made_a_moment_ago_is_known(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, producer: Client, admin: Client
) -> None:
    async with ingesting(tmp_path, settings(dsn, nats_server)):
        async with store.connection() as connection:
            await connection.execute("ALTER TABLE companies DISABLE TRIGGER companies_notify")
        await create_producer(store)
        await publish(producer, ALERT)
        await eventually(lambda: delivered(admin), ["a-1"])
    assert await dead_letters(store) == []


async def test_while_the_database_is_away_everything_waits_and_nothing_is_written_twice(
    ingest: tuple[Program, Producer],
    producer: Client,
    admin: Client,
    store: Database,
    postgres_server: Postgres,
) -> None:
    program, http = ingest

    async def states() -> tuple[int, bool]:
        """Whether a load balancer should go on sending, and whether the database works."""
        status, text = await program.get("/readyz")
        return status, json.loads(text)["dependencies"]["timescaledb"] == "ok"

    postgres_server.kill()
    try:
        answers = [await http.post(ALERT | {"alert_id": f"http-{number}"}) for number in range(20)]
        again = await http.post(ALERT | {"alert_id": "http-0"})
        conflict = await http.post(ALERT | {"alert_id": "http-0", "title": "u"})
        for number in range(20):
            await publish(producer, ALERT | {"alert_id": f"nats-{number}"})
            await publish(producer, b"junk %d" % number)
        await eventually(states, (200, False))
        assert await waiting(admin) == 60
    finally:
        postgres_server.start()
    assert [answer.status for answer in answers] == [202] * 20
    assert again.json()["status"] == "duplicate"
    assert conflict.status == 409
    await eventually(lambda: waiting(admin), 0, within_s=30)
    expected = [f"{source}-{number}" for source in ("http", "nats") for number in range(20)]
    assert sorted(await delivered(admin)) == sorted(expected)
    await store.wait()
    assert len(await dead_letters(store)) == 20


async def test_what_a_process_wrote_before_it_crashed_is_not_written_again(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, producer: Client, admin: Client
) -> None:
    await create_producer(store)
    await publish(producer, b"junk")
    await publish(producer, ALERT)
    bus_settings = BusSettings(nats_ack_wait_s=1)
    register, taken = Register(store, 86_400), asyncio.Queue[Delivery]()
    async with connection(nats_server.url("ingestd")) as bus:
        durable = durable_consumer("ingestd", "ba.alerts.*", bus_settings)
        async with background(Consumer(bus, ALERTS, durable, 10, taken.put).run(asyncio.Event())):
            junk, alert = await taken.get(), await taken.get()
            refused, valid = read_arrival(junk, "demo"), read_arrival(alert, "demo")
            assert isinstance(refused, Refusal)
            assert isinstance(valid, Arrived)
            await register.bury(junk.source, refused)
            assert await register.register(valid.record) is Arrival.FIRST
    # Neither was acknowledged.
    written = await dead_letters(store)
    async with ingesting(tmp_path, settings(dsn, nats_server, BA_NATS_ACK_WAIT_S="1")):
        await eventually(lambda: waiting(admin), 0)
    assert await dead_letters(store) == written
    assert len(written) == 1
    assert await delivered(admin) == ["a-1"]


async def test_an_alert_that_jetstream_has_given_up_becomes_a_dead_letter(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, producer: Client, admin: Client
) -> None:
    """Somebody has given the consumer a bound, and an alert has run into it."""
    await create_producer(store)
    async with ingesting(tmp_path, settings(dsn, nats_server)):
        await eventually(lambda: waiting(admin), 0)
    context = admin.jetstream()
    info = await context.consumer_info(ALERTS, "ingestd")
    await context.add_consumer(ALERTS, info.config.evolve(max_deliver=1, ack_wait=0.2))
    await publish(producer, ALERT)
    subscription = await context.pull_subscribe_bind("ingestd", ALERTS)
    assert len(await subscription.fetch(1, timeout=5)) == 1

    async def noticed() -> int:
        return (await context.stream_info("BA_ADVISORIES")).state.messages

    await eventually(noticed, 1)
    async with ingesting(tmp_path, settings(dsn, nats_server)):
        await eventually(lambda: waiting(admin), 0)
    (letter,) = await dead_letters(store)
    assert (letter["channel"], letter["reason"]) == ("ingest", "max_deliveries")
    assert letter["payload"] == ALERT
