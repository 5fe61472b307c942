import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from announce.bus.settings import StreamSettings
from announce.bus.setup import create_streams
from announce.bus.streams import ALERTS
from announce.store.cipher import SecretCipher
from announce.store.database import Database
from announce.store.keyring import create_company, create_key, revoke_key
from announce.store.subscriptions import Subscription, save_subscriptions
from tests.eventually import eventually
from tests.ingest import CIPHER, COMPANY, Producer, create_producer, envelopes, ingesting, settings
from tests.programs import Program
from tests.servers import Nats, Postgres

TARGETS = [{"channel": "fcm", "token": "tok"}]
ALERT = {"alert_id": "a-1", "title": "Disk full", "targets": TARGETS}
LIMIT = 64 * 1024


@pytest.fixture
async def admin(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url())
    yield client
    await client.close()


async def delivered(admin: Client) -> list[tuple[str, str]]:
    return [(each.alert_id, each.channel) for each in await envelopes(admin.jetstream())]


async def test_an_alert_goes_to_its_targets(producer: Producer, program: Program, admin: Client) -> None:
    answer = await producer.post(ALERT | {"targets": [*TARGETS, {"channel": "telegram", "chat_id": 7}] * 2})
    assert (answer.status, answer.json()) == (202, {"alert_id": "a-1", "status": "accepted"})
    await eventually(lambda: delivered(admin), [("a-1", "fcm"), ("a-1", "telegram")])
    assert await program.metric("ba_ingest_alerts_total", source="http", result="accepted") == 1
    assert await program.metric("ba_fanout_envelopes_total", channel="fcm") == 1


async def test_an_alert_without_targets_goes_to_the_company_s_subscriptions(
    producer: Producer, store: Database, admin: Client
) -> None:
    await save_subscriptions(store, COMPANY, [Subscription("fcm", "tok"), Subscription("fcm", "db", tags=["db"])])
    await create_company(store, "other", "Other")
    await save_subscriptions(store, "other", [Subscription("fcm", "elsewhere")])
    answer = await producer.post({"title": "t"})
    assert answer.status == 202

    async def seen() -> list[dict[str, Any]]:
        return [each.target for each in await envelopes(admin.jetstream())]

    await eventually(seen, [{"channel": "fcm", "token": "tok"}])


async def test_a_repeated_request_is_the_same_alert(producer: Producer, program: Program, admin: Client) -> None:
    body = json.dumps({"title": "t", "targets": TARGETS}).encode()
    headers = producer.headers(body, "/v1/alerts")
    first = await producer.send(body, headers)
    again = [await producer.send(body, headers) for _ in range(2)]
    assert first.json()["status"] == "accepted"
    assert [answer.json() for answer in again] == [first.json() | {"status": "duplicate"}] * 2
    await eventually(lambda: program.metric("ba_fanout_envelopes_total"), 1.0)
    assert len(await envelopes(admin.jetstream())) == 1


async def test_many_at_once_with_one_id_are_one_alert(producer: Producer, admin: Client) -> None:
    answers = await asyncio.gather(*(producer.post(ALERT) for _ in range(20)))
    assert sorted(answer.json()["status"] for answer in answers) == ["accepted"] + ["duplicate"] * 19
    await eventually(lambda: delivered(admin), [("a-1", "fcm")])


async def test_one_id_with_other_content_is_a_conflict(producer: Producer) -> None:
    assert (await producer.post(ALERT)).status == 202
    answer = await producer.post(ALERT | {"title": "Another"})
    assert (answer.status, answer.kind) == (409, "alert-id-reused")


async def test_every_way_to_be_refused_has_its_own_answer(producer: Producer) -> None:
    body = json.dumps({"title": "t"}).encode()
    good = producer.headers(body, "/v1/alerts")
    too_long = b'{"title":"t","body":"' + b"x" * LIMIT + b'"}'
    stale = producer.headers(body, "/v1/alerts", int(time.time()) - 301)
    answers = {
        "no key id": await producer.send(body, good | {"X-BA-Key-Id": ""}),
        "bad time": await producer.send(body, good | {"X-BA-Timestamp": "yesterday"}),
        "clock skew": await producer.send(body, stale),
        "wrong secret": await Producer(producer.url, producer.session, secret="other").post({"title": "t"}),
        "unknown key": await Producer(producer.url, producer.session, key_id="key-9").post({"title": "t"}),
        "other path": await producer.send(body, good, "/v1/alerts?x=1"),
        "not json": await producer.post(b"not json"),
        "not utf-8": await producer.post(b"\xff"),
        "no object": await producer.post([]),
        "foreign company": await producer.post({"title": "t", "company_id": "other"}),
        "65 KiB": await producer.post(too_long),
        "invalid": await producer.post({"title": "", "x": 1}),
        "NUL": await producer.post({"title": "\0"}),
        "surrogate": await producer.post(b'{"title":"\\ud800"}'),
        "1,001 targets": await producer.post({"title": "t", "targets": TARGETS * 1001}),
        "compressed": await producer.send(body, good | {"Content-Encoding": "gzip"}),
        "empty batch": await producer.post(b"\n", "/v1/alerts:batch"),
        "1,001 lines": await producer.post(b"{}\n" * 1001, "/v1/alerts:batch"),
        "8 MiB and more": await producer.post(b" " * (8 * 1024 * 1024 + 1), "/v1/alerts:batch"),
    }
    assert {name: (answer.status, answer.kind) for name, answer in answers.items()} == {
        "no key id": (401, "missing-header"),
        "bad time": (401, "bad-timestamp"),
        "clock skew": (401, "clock-skew"),
        "wrong secret": (401, "bad-signature"),
        "unknown key": (401, "bad-signature"),
        "other path": (401, "bad-signature"),
        "not json": (400, "not-json"),
        "not utf-8": (400, "not-json"),
        "no object": (400, "not-json"),
        "foreign company": (403, "foreign-company"),
        "65 KiB": (413, "too-large"),
        "invalid": (422, "invalid-alert"),
        "NUL": (422, "invalid-alert"),
        "surrogate": (422, "invalid-alert"),
        "1,001 targets": (422, "invalid-alert"),
        "compressed": (415, "compressed"),
        "empty batch": (400, "empty-batch"),
        "1,001 lines": (413, "too-large"),
        "8 MiB and more": (413, "too-large"),
    }
    assert answers["wrong secret"].body == answers["unknown key"].body
    assert [error["field"] for error in answers["invalid"].json()["errors"]] == ["title", "x"]


async def test_unknown_routes_and_methods_are_problems_too(producer: Producer) -> None:
    async with producer.session.get(f"{producer.url}/v1/alerts") as response:
        assert (response.status, response.content_type) == (405, "application/problem+json")
    async with producer.session.post(f"{producer.url}/v1/alert") as response:
        assert (response.status, response.content_type) == (404, "application/problem+json")


async def test_a_body_without_a_length_is_cut_off_at_the_limit(producer: Producer) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * LIMIT:
            sent += 1024
            yield bytes(1024)

    async with producer.session.post(
        f"{producer.url}/v1/alerts", data=endless(), headers=producer.headers(b"", "/v1/alerts")
    ) as response:
        assert response.status == 413


async def test_the_largest_alert_and_the_largest_batch_are_taken(
    producer: Producer, program: Program, store: Database
) -> None:
    body = b'{"title":"t","data":{"k":"' + b"x" * (LIMIT - 29) + b'"}}'
    assert len(body) == LIMIT
    assert (await producer.post(body)).status == 202
    line = b'{"title":"t","data":{"k":"' + b"y" * 8000 + b'","n":"%04d"}}'
    answer = await producer.post(b"\n".join(line % number for number in range(1000)), "/v1/alerts:batch")
    assert answer.status == 202
    await eventually(lambda: program.metric("ba_fanout_seconds_count"), 1001.0)
    async with store.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM alerts WHERE fanned_out_at IS NOT NULL") == 1001
        assert await connection.fetchval("SELECT count(*) FROM deliveries_dlq") == 0


async def test_a_body_that_does_not_come_is_not_waited_for(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database
) -> None:
    await create_producer(store)
    environment = settings(dsn, nats_server, BA_INGESTD_BODY_TIMEOUT_S="0.2")
    async with ingesting(tmp_path, environment) as (program, producer):
        host, port = program.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, port)
        headers = producer.headers(b"", "/v1/alerts")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"POST /v1/alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n{lines}\r\nabc".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_each_line_of_a_batch_is_taken_for_itself(producer: Producer, admin: Client) -> None:
    answer = await producer.post_batch(
        ALERT,
        ALERT | {"alert_id": "a-2"},
        b"junk",
        b"",
        ALERT,
        ALERT | {"title": "Another"},
        {"title": ""},
        {"title": "t", "company_id": "other"},
        b'{"title":"' + b"x" * LIMIT + b'"}',
        {"title": "unnamed", "targets": TARGETS},
        {"title": "unnamed", "targets": TARGETS},
    )
    assert (answer.status, answer.headers["Content-Type"]) == (207, "application/x-ndjson")
    lines = answer.lines()
    assert [line["line"] for line in lines] == list(range(1, 12))
    assert [line["problem"]["status"] if "problem" in line else line["status"] for line in lines] == [
        "accepted", "accepted", 400, 400, "duplicate", 409, 422, 403, 413, "accepted", "duplicate",
    ]  # fmt: skip
    assert lines[6]["problem"]["errors"][0]["field"] == "title"
    named = lines[9]["alert_id"]
    assert lines[10]["alert_id"] == named
    await eventually(lambda: delivered(admin), [("a-1", "fcm"), ("a-2", "fcm"), (named, "fcm")])
    whole = await producer.post_batch(ALERT | {"alert_id": "a-3"}, ALERT)
    assert (whole.status, [line["status"] for line in whole.lines()]) == (202, ["accepted", "duplicate"])


async def test_the_rate_of_a_company_is_its_own(tmp_path: Path, dsn: str, nats_server: Nats, store: Database) -> None:
    await create_producer(store)
    await create_company(store, "slow", "Slow", rate_per_s=0.01)
    await create_key(store, CIPHER, "slow", "key-slow", "made-up")
    environment = settings(dsn, nats_server, BA_INGESTD_COMPANY_RATE_PER_S="20")
    async with ingesting(tmp_path, environment) as (program, producer):
        slow = Producer(program.url, producer.session, key_id="key-slow")
        assert (await slow.post({"title": "t"})).status == 202
        answer = await slow.post({"title": "u"})
        assert (answer.status, answer.kind) == (429, "rate-exceeded")
        assert 90 <= int(answer.headers["Retry-After"]) <= 100
        # A batch counts as many as it has lines, and one that is larger than a burst can still be sent.
        assert (await producer.post_batch(*({"title": str(number)} for number in range(200)))).status == 202
        answer = await producer.post({"title": "t"})
        assert (answer.status, answer.kind) == (429, "rate-exceeded")
        assert 5 <= int(answer.headers["Retry-After"]) <= 10


async def test_new_and_revoked_keys_count_at_once(producer: Producer, store: Database) -> None:
    await create_key(store, CIPHER, COMPANY, "key-2", "made-up")
    second = Producer(producer.url, producer.session, key_id="key-2")

    async def status() -> int:
        return (await second.post({"title": "t"})).status

    await eventually(status, 202, within_s=5)
    await revoke_key(store, "key-2")
    await eventually(status, 401, within_s=5)
    assert (await producer.post({"title": "t"})).status == 202


async def test_a_key_that_cannot_be_decrypted_is_told_and_the_others_go_on(
    producer: Producer, program: Program, store: Database
) -> None:
    other = SecretCipher("_0pGBdyRHpSS8Rm_KMAFTtzJBxbK7V_fJVAFo3nFvNM=")
    await create_key(store, other, COMPANY, "key-odd", "x")

    async def told() -> bool:
        status, text = await program.get("/readyz")
        return status == 200 and "can't be decrypted" in json.loads(text)["dependencies"]["keyring_updates"]

    await eventually(told, expected=True)
    assert (await producer.post({"title": "t"})).status == 202
    await revoke_key(store, "key-odd")
    await eventually(told, expected=False)


async def test_without_keys_nothing_is_taken_and_nobody_is_called_wrong(
    tmp_path: Path, dsn: str, nats_server: Nats
) -> None:
    nowhere = settings(dsn, nats_server) | {"BA_PG_DSN": "postgresql://announce@127.0.0.1:1/nowhere"}
    async with ingesting(tmp_path, nowhere, ready=False) as (program, producer):
        assert "keyring" in await program.readiness(503)
        answer = await producer.post({"title": "t"})
        assert (answer.status, answer.kind) == (503, "unavailable")
        assert int(answer.headers["Retry-After"]) > 0


async def test_a_full_stream_takes_no_alert_until_there_is_room_again(
    producer: Producer, program: Program, postgres_server: Postgres, admin: Client
) -> None:
    await create_streams(admin.jetstream(), StreamSettings(nats_alerts_max_bytes=1 << 20))
    big = [ALERT | {"alert_id": f"big-{number}", "data": {"k": "x" * 60_000}} for number in range(30)]
    postgres_server.kill()
    try:
        answers = await asyncio.gather(*map(producer.post, big))
        batch = await producer.post_batch(*big[:10])
    finally:
        postgres_server.start()
    refused = [answer for answer in answers if answer.status != 202]
    assert 0 < len(refused) < len(big)
    assert {(answer.status, answer.kind) for answer in refused} == {(503, "unavailable")}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in refused)
    assert batch.status in (202, 207, 503)

    async def all_taken() -> bool:
        return all([(await producer.post(each)).status == 202 for each in big])

    await eventually(all_taken, expected=True, within_s=30)
    await eventually(lambda: program.metric("ba_fanout_envelopes_total"), float(len(big)))


async def test_while_nats_is_away_it_says_so_and_afterwards_it_goes_on(
    producer: Producer, program: Program, nats_server: Nats, admin: Client
) -> None:
    await admin.close()
    nats_server.kill()
    await program.readiness(503)
    answer = await producer.post(ALERT)
    assert (answer.status, answer.kind) == (503, "unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert (await producer.post_batch(ALERT, ALERT)).status == 503
    nats_server.start()
    await program.readiness(200)
    assert (await producer.post(ALERT)).json()["status"] == "accepted"


async def test_nobody_s_message_id_can_swallow_another_s_alert(
    producer: Producer, nats_server: Nats, store: Database, admin: Client
) -> None:
    """JetStream compares message ids over the whole stream, and any producer may write any id."""
    await create_producer(store, "victim", "key-v")
    victim = Producer(producer.url, producer.session, key_id="key-v")
    attacker = await nats.connect(nats_server.url("producer-demo"))
    for alert_id, payload in (("a-1", b'{"title":"poison"}'), ("a-2", b"junk")):
        headers = {"Nats-Msg-Id": f"victim:{alert_id}"}
        await attacker.jetstream().publish("ba.alerts.demo", payload, headers=headers)
    await attacker.close()
    for alert_id in ("a-1", "a-2"):
        assert (await victim.post(ALERT | {"alert_id": alert_id})).json()["status"] == "accepted"
        assert (await victim.post(ALERT | {"alert_id": alert_id})).json()["status"] == "duplicate"
        assert (await victim.post(ALERT | {"alert_id": alert_id, "title": "u"})).status == 409
    await eventually(lambda: delivered(admin), [("a-1", "fcm"), ("a-2", "fcm")])


async def test_a_second_process_tells_duplicates_of_the_first(
    producer: Producer, tmp_path: Path, dsn: str, nats_server: Nats, admin: Client
) -> None:
    assert (await producer.post(ALERT)).json()["status"] == "accepted"
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (_, second):
        assert (await second.post(ALERT)).json()["status"] == "duplicate"
        assert (await second.post(ALERT | {"title": "u"})).kind == "alert-id-reused"
    await eventually(lambda: delivered(admin), [("a-1", "fcm")])


async def test_beyond_jetstreams_window_the_table_tells_duplicates(
    tmp_path: Path, dsn: str, nats_server: Nats, store: Database, admin: Client
) -> None:
    await create_producer(store)
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (_, producer):
        assert (await producer.post(ALERT)).json()["status"] == "accepted"
        await eventually(lambda: delivered(admin), [("a-1", "fcm")])
    # Neither the process's memory nor JetStream knows of it any more.
    await admin.jetstream().delete_stream(ALERTS)
    await create_streams(admin.jetstream(), StreamSettings())
    async with ingesting(tmp_path, settings(dsn, nats_server)) as (_, producer):
        assert (await producer.post(ALERT)).json()["status"] == "duplicate"
        assert (await producer.post(ALERT | {"title": "u"})).kind == "alert-id-reused"
        assert (await admin.jetstream().stream_info(ALERTS)).state.messages == 0
