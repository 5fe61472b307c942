import asyncio
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec import structs

from announce.model.alert import Severity
from announce.model.envelope import Envelope, Message
from announce.model.identity import delivery_id, row_id
from announce.model.outcome_event import Ending
from announce.model.reason import Reason
from announce.observe.health import Health
from announce.runtime.background import background
from announce.store import sql
from announce.store.alerts import (
    AcceptedAlert,
    AlertKey,
    Arrival,
    FanoutProgress,
    FinishedFanout,
    fanout_progress,
    finish_fanouts,
    forget_alerts,
    known_hashes,
    register_alerts,
    save_fanout_progress,
)
from announce.store.cipher import SecretCipher, UndecryptableSecret
from announce.store.database import DEPENDENCY, Database, DatabaseUnavailable, RowRefused, database
from announce.store.deliveries import (
    AttemptRow,
    DeadLetterRow,
    DeliveryRecord,
    Ended,
    History,
    histories,
    record_deliveries,
)
from announce.store.keyring import create_company, create_key, load_keyring, revoke_key
from announce.store.settings import StoreSettings
from announce.store.subscriptions import Subscription, matching_subscriptions, save_subscriptions
from tests.eventually import eventually
from tests.servers import Postgres

WINDOW_S = 86_400.0
KEYS = ("u3Uc-qAi9iiCv3fkBfRUAKrM1gH8w51-nVU8M8A73Jg=", "_0pGBdyRHpSS8Rm_KMAFTtzJBxbK7V_fJVAFo3nFvNM=")


def accepted(alert_id: str, seq: int, content: bytes = b"h", at: datetime | None = None) -> AcceptedAlert:
    return AcceptedAlert(
        AlertKey("acme", alert_id),
        at or datetime.now(UTC),
        seq,
        content,
        Severity.WARNING,
        "Disk full",
        None,
        b'{"title":"Disk full"}',
        "00-x",
    )


def envelope(alert_id: str = "a-1", replay_of: UUID | None = None) -> Envelope:
    return Envelope(
        delivery_id=delivery_id("acme", alert_id, "fcm", "token"),
        alert_id=alert_id,
        company_id="acme",
        channel="fcm",
        target={"channel": "fcm", "token": "token"},
        message=Message(title="t", body="", severity=Severity.INFO, data={}, collapse_key=None),
        created_at=datetime.now(UTC) - timedelta(seconds=1),
        expires_at=None,
        replay_of=replay_of,
    )


def attempt(of: Envelope, number: int, status: Ending = "failed") -> AttemptRow:
    now = datetime.now(UTC)
    reason = Reason.TIMEOUT if status == "failed" else None
    return AttemptRow(
        row_id(now), now, "acme", of.alert_id, of.delivery_id, "fcm", "token", number, status, reason,
        None, "no answer" if reason else None, 1.5, None, of.replay_of,
    )  # fmt: skip


def letter(of: Envelope, payload: bytes) -> DeadLetterRow:
    now = datetime.now(UTC)
    return DeadLetterRow(
        row_id(now), now, "acme", of.alert_id, of.delivery_id, "fcm", "token", "ba.deliver.fcm.acme", payload, 1,
        Reason.TIMEOUT, None, "no answer", now,
    )  # fmt: skip


async def test_every_block_of_sql_is_valid(store: Database) -> None:
    await create_company(store, "acme", "Acme")
    families = [path.name.removesuffix(".sql") for path in files(sql).iterdir() if path.name.endswith(".sql")]
    assert len(families) >= 5
    async with store.transaction() as connection:
        for family in families:
            blocks = sql.load(family)
            # What merges reads a stage that another block makes.
            for name in sorted(blocks, key=lambda block: block.startswith("merge")):
                if name.startswith("stage"):
                    await connection.execute(blocks[name])
                else:
                    await connection.prepare(blocks[name])


async def test_of_one_alert_that_comes_twice_only_the_first_counts(store: Database) -> None:
    assert await register_alerts(store, [accepted("a", 1), accepted("a", 2), accepted("a", 3, b"other")], WINDOW_S) == [
        Arrival.FIRST,
        Arrival.DUPLICATE,
        Arrival.CONFLICT,
    ]
    later = [accepted("a", 4), accepted("a", 1), accepted("a", 5, b"other"), accepted("b", 6)]
    assert await register_alerts(store, later, WINDOW_S) == [
        Arrival.DUPLICATE,
        Arrival.FIRST,
        Arrival.CONFLICT,
        Arrival.FIRST,
    ]
    assert await known_hashes(store, [AlertKey("acme", "a"), AlertKey("acme", "none")], WINDOW_S) == {
        AlertKey("acme", "a"): b"h"
    }


async def test_an_alert_beyond_the_window_is_new_again(store: Database) -> None:
    old = datetime.now(UTC) - timedelta(seconds=WINDOW_S + 1)
    await register_alerts(store, [accepted("a", 1, at=old)], WINDOW_S)
    assert await known_hashes(store, [AlertKey("acme", "a")], WINDOW_S) == {}
    assert await register_alerts(store, [accepted("a", 2, b"other")], WINDOW_S) == [Arrival.FIRST]
    assert await register_alerts(store, [accepted("a", 3)], WINDOW_S) == [Arrival.CONFLICT]


async def test_forgetting_takes_what_is_older_than_the_window_in_portions(store: Database) -> None:
    old = datetime.now(UTC) - timedelta(seconds=WINDOW_S + 1)
    await register_alerts(store, [accepted(f"old-{n}", n, at=old) for n in range(5)] + [accepted("new", 9)], WINDOW_S)
    assert [await forget_alerts(store, WINDOW_S, 3) for _ in range(3)] == [3, 2, 0]


async def test_fanout_progress_is_kept_for_each_alert(store: Database) -> None:
    alert = accepted("a", 1)
    await register_alerts(store, [alert], WINDOW_S)
    assert await fanout_progress(store, alert.key, alert.accepted_at) == FanoutProgress()
    await save_fanout_progress(store, alert.key, alert.accepted_at, FanoutProgress(17, 12))
    assert await fanout_progress(store, alert.key, alert.accepted_at) == FanoutProgress(17, 12)
    await finish_fanouts(store, [FinishedFanout(alert.key, alert.accepted_at, 20)])
    assert await fanout_progress(store, alert.key, alert.accepted_at) == FanoutProgress(17, 20, finished=True)


async def test_an_alert_reaches_those_whose_severity_is_met_and_whose_tags_fit(store: Database) -> None:
    await create_company(store, "acme", "Acme")
    await create_company(store, "other", "Other")
    await save_subscriptions(store, "other", [Subscription("fcm", "elsewhere")])
    await save_subscriptions(
        store,
        "acme",
        [
            Subscription("fcm", "all"),
            Subscription("fcm", "loud", Severity.CRITICAL),
            Subscription("fcm", "db", tags=["db", "net"]),
            Subscription("telegram", "7", Severity.WARNING, ["web"]),
        ],
    )

    async def reached(severity: Severity, *tags: str) -> list[str]:
        return [each.address for each in await matching_subscriptions(store, "acme", severity, tags, 0, 100)]

    assert await reached(Severity.INFO) == ["all"]
    assert await reached(Severity.CRITICAL) == ["all", "loud"]
    assert await reached(Severity.WARNING, "net", "web") == ["all", "db", "7"]
    page = await matching_subscriptions(store, "acme", Severity.CRITICAL, ["db"], 0, 2)
    rest = await matching_subscriptions(store, "acme", Severity.CRITICAL, ["db"], page[-1].subscription_id, 2)
    assert [each.address for each in page + rest] == ["all", "loud", "db"]


async def test_rows_that_may_have_been_written_are_written_once(store: Database) -> None:
    of = envelope()
    payload = b'{"v": 1, "replay_of": null, "text": "\\u00e9"}'
    record = DeliveryRecord([attempt(of, 1), attempt(of, 2)], letter(of, payload))
    await record_deliveries(store, [record], again=False)
    await record_deliveries(store, [record, DeliveryRecord([attempt(of, 3)])], again=True)
    async with store.connection() as connection:
        assert await connection.fetchval("SELECT array_agg(attempts ORDER BY attempts) FROM deliveries") == [1, 2, 3]
        row = await connection.fetchrow("SELECT payload, discarded, replays FROM deliveries_dlq")
    assert dict(row or {}) == {
        "payload": {"v": 1, "replay_of": None, "text": "é"},
        "discarded": False,
        "replays": 0,
    }


async def test_a_history_tells_what_was_done(store: Database) -> None:
    fresh, failing = envelope("a-0"), envelope("a-1")
    rows = [attempt(failing, number) for number in range(1, 6)]
    # What our own set-up spoilt costs no try.
    rows[1] = rows[1]._replace(reason=Reason.CREDENTIALS)
    rows[3] = rows[3]._replace(reason=Reason.MISCONFIGURED)
    await record_deliveries(store, [DeliveryRecord(rows)], again=False)
    assert await histories(store, [fresh, failing]) == [History(), History(5, 3, None, rows[0].created_at)]


async def test_a_history_tells_how_it_ended(store: Database) -> None:
    sent, expired, dead = (envelope(f"a-{n}") for n in range(3))
    firsts = [attempt(each, 1) for each in (sent, expired, dead)]
    sent_row, expired_row = attempt(sent, 2, "sent")._replace(status_code=200), attempt(expired, 1, "expired")
    expired_row = expired_row._replace(reason=Reason.EXPIRED)
    dead_row = letter(dead, b'{"replay_of": null}')._replace(status_code=500)
    records = [
        DeliveryRecord([firsts[0], sent_row]),
        DeliveryRecord([firsts[1], expired_row]),
        DeliveryRecord([firsts[2]], dead_row),
    ]
    await record_deliveries(store, records, again=False)
    assert await histories(store, [dead, sent, expired]) == [
        History(1, 1, Ended("failed", "token", 1, Reason.TIMEOUT, 500, dead_row.created_at), firsts[2].created_at),
        History(2, 2, Ended("sent", "token", 2, None, 200, sent_row.created_at), firsts[0].created_at),
        History(1, 1, Ended("expired", "token", 1, Reason.EXPIRED, None, expired_row.created_at), firsts[1].created_at),
    ]


async def test_what_was_sent_was_sent_whatever_else_was_written_of_it(store: Database) -> None:
    both = envelope()
    records = [DeliveryRecord([attempt(both, 1)], letter(both, b'{"replay_of": null}'))]
    records += [DeliveryRecord([attempt(both, number, "sent")]) for number in (2, 3)]
    await record_deliveries(store, records, again=False)
    (history,) = await histories(store, [both])
    assert history.ended is not None
    assert (history.ended.status, history.ended.attempts, history.attempts) == ("sent", 2, 3)


async def test_a_replay_begins_anew_even_when_both_are_asked_for_at_once(store: Database) -> None:
    first, replay, later_replay = envelope(), envelope(replay_of=uuid4()), envelope(replay_of=uuid4())
    payload = msgspec.json.encode({"replay_of": replay.replay_of})
    records = [
        DeliveryRecord([attempt(first, 1), attempt(first, 2)], letter(first, b'{"replay_of": null}')),
        DeliveryRecord([attempt(replay, 1)], letter(replay, payload)._replace(attempts=1)),
    ]
    await record_deliveries(store, records, again=False)
    found = await histories(store, [later_replay, replay, first, replay])
    assert [(each.attempts, each.ended is not None) for each in found] == [(0, False), (1, True), (2, True), (1, True)]


async def test_a_value_that_cannot_be_stored_is_no_outage(store: Database) -> None:
    bad = attempt(envelope(), 1)._replace(last_error="nul \0")
    for again in (False, True):
        with pytest.raises(RowRefused):
            await record_deliveries(store, [DeliveryRecord([bad])], again=again)
    with pytest.raises(RowRefused):
        await record_deliveries(store, [DeliveryRecord([bad._replace(last_error=None, attempts=2**40)])], again=False)


async def test_an_outage_shows_as_such_and_passes(postgres_server: Postgres, store: Database) -> None:
    await create_company(store, "acme", "Acme")
    postgres_server.kill()
    try:
        with pytest.raises(DatabaseUnavailable):
            await create_company(store, "acme", "Acme")
    finally:
        postgres_server.start()
    await store.wait()
    await create_company(store, "acme", "Acme")


async def test_a_cancellation_during_an_outage_stays_a_cancellation(postgres_server: Postgres, store: Database) -> None:
    borrowed = asyncio.Event()

    async def hold() -> None:
        async with store.connection():
            borrowed.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await borrowed.wait()
    postgres_server.kill()
    try:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        postgres_server.start()


async def test_a_pool_that_is_used_up_is_an_outage_too(dsn: str) -> None:
    async with database(StoreSettings(pg_dsn=dsn, pg_pool_size=2)) as small:
        async with small.connection(), small.connection():
            with pytest.raises(DatabaseUnavailable):
                await create_company(small, "acme", "Acme")
        await create_company(small, "acme", "Acme")


async def test_keys_are_kept_encrypted_and_end_when_revoked(store: Database, dsn: str) -> None:
    await create_company(store, "acme", "Acme", rate_per_s=5)
    cipher = SecretCipher(KEYS[0])
    key_id, secret = await create_key(store, cipher, "acme")
    second_id, _ = await create_key(store, cipher, "acme", secret="chosen")
    rotated = SecretCipher(",".join(KEYS[::-1]))
    keyring = await load_keyring(store, rotated)
    assert keyring.keys[key_id] == ("acme", secret.encode())
    assert keyring.keys[second_id] == ("acme", b"chosen")
    assert keyring.rates == {"acme": 5}
    async with database(StoreSettings(pg_dsn=dsn)) as other, other.connection() as connection:
        assert secret.encode() not in await connection.fetchval(
            "SELECT string_agg(secret_ciphertext, '') FROM ingest_keys"
        )
    with pytest.raises(UndecryptableSecret):
        await load_keyring(store, SecretCipher(KEYS[1]))
    await revoke_key(store, key_id)
    assert set((await load_keyring(store, cipher)).keys) == {second_id}


async def test_what_the_database_does_not_take_for_now_is_an_outage(store: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        async with store.connection() as connection:
            await connection.execute("START TRANSACTION READ ONLY; DELETE FROM companies")
    with pytest.raises(DatabaseUnavailable):
        async with store.connection() as connection:
            await connection.execute("SELECT * FROM not_there_yet")


async def test_an_envelope_from_the_beginning_of_time_has_a_history_too(store: Database) -> None:
    old = structs.replace(envelope(), created_at=datetime(1, 1, 1, tzinfo=UTC))
    assert await histories(store, [old, envelope()]) == [History(), History()]


async def test_a_database_that_cannot_be_written_is_not_ready(dsn: str, store: Database) -> None:
    async with store.connection() as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    health = Health(DEPENDENCY)
    async with database(StoreSettings(pg_dsn=dsn)) as opened, background(opened.watch(health)):

        async def report() -> dict[str, str]:
            return health.report()

        await eventually(report, {DEPENDENCY: "read-only"})
