"""What becomes of deliveries, whatever happens to the service and to what it stands on."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from msgspec import structs

from announce.bus.connection import connection
from announce.bus.publisher import OutgoingMessage, Publisher
from announce.bus.streams import DELIVER, deliver_subject
from announce.model.envelope import encode_envelope
from announce.model.identity import delivery_id
from announce.model.target import target_at
from announce_fakes.fcm import FakeFcm
from tests.eventually import eventually
from tests.integration.rig import TRACE, Rig, encoded, envelope
from tests.programs import Program, running
from tests.servers import Nats, Postgres


async def test_a_delivery_is_sent_recorded_and_acknowledged(rig: Rig) -> None:
    async with rig.service() as service:
        await rig.publish(*encoded(1))
        await eventually(rig.attempts, [("alert-1", 1, "sent", None)])
        await eventually(rig.left, 0)
        assert await service.metric("ba_deliveries_total", status="sent") == 1
        assert await service.metric("ba_delivery_messages_settled_total") == 1
    (received,) = rig.provider.received()
    assert received["headers"]["traceparent"][:36] == TRACE[:36]
    assert await rig.letters() == []
    (row,) = await rig.rows("SELECT channel, target, status_code, latency_ms > 0, provider_message_id FROM deliveries")
    assert row[:4] == ("telegram", "1", 200, True)
    assert row[4]
    assert rig.provider.token.partition(":")[2] not in service.log.read_text()


async def test_a_failing_target_that_recovers_leaves_its_failures_and_one_success(rig: Rig) -> None:
    rig.provider.control(status=500, times=2)
    async with rig.service():
        await rig.publish(*encoded(1))
        expected = [("alert-1", n, "failed", "provider_error") for n in (1, 2)] + [("alert-1", 3, "sent", None)]
        await eventually(rig.attempts, expected)
        await eventually(rig.left, 0)
    assert await rig.letters() == []
    assert await rig.rows("SELECT last_error FROM deliveries WHERE status = 'sent'") == [(None,)]


async def test_a_target_that_always_fails_ends_in_the_dead_letter_queue_with_its_envelope(rig: Rig) -> None:
    rig.provider.control(fail=True)
    (raw,) = encoded(1)
    async with rig.service(BA_DELIVERD_MAX_ATTEMPTS="4"):
        await rig.publish(raw)
        await eventually(rig.letters, [("alert-1", 4, "provider_error")])
        await eventually(rig.left, 0)
    assert [row[1:3] for row in await rig.attempts()] == [(n, "failed") for n in (1, 2, 3, 4)]
    ((payload, subject),) = await rig.rows("SELECT payload, original_subject FROM deliveries_dlq")
    assert payload == json.loads(raw)
    assert subject == "ba.deliver.telegram.acme"


async def test_a_permanent_failure_takes_one_attempt(rig: Rig) -> None:
    rig.provider.control(status=403, error_code="Forbidden: bot was blocked by the user")
    async with rig.service():
        await rig.publish(*encoded(1))
        await eventually(rig.letters, [("alert-1", 1, "target_gone")])
        await eventually(rig.left, 0)
    assert await rig.attempts() == [("alert-1", 1, "failed", "target_gone")]


async def test_what_has_expired_is_not_sent(rig: Rig) -> None:
    await rig.publish(encode_envelope(envelope(1, ttl_s=0)))
    async with rig.service():
        await eventually(rig.attempts, [("alert-1", 0, "expired", "expired")])
        await eventually(rig.left, 0)
    assert rig.provider.received() == []
    assert await rig.letters() == []


async def test_what_expires_between_two_tries_is_not_sent_again(rig: Rig) -> None:
    rig.provider.control(fail=True)
    async with rig.service(BA_DELIVERD_RETRY_BASE_MS="700"):
        await rig.publish(encode_envelope(envelope(1, ttl_s=0.5)))
        await eventually(
            rig.attempts, [("alert-1", 1, "failed", "provider_error"), ("alert-1", 1, "expired", "expired")]
        )
        await eventually(rig.left, 0)


async def test_poison_is_kept_byte_for_byte_and_holds_up_nobody(rig: Rig) -> None:
    whole = encoded(9)[0]
    poison = [b"", b"junk\0\xff", b"{}", b'{"v":2}', whole.replace(b'"chat_id"', b'"chat"')]
    # The database could hold none of these in their columns.
    poison += [whole.replace(b"alert-9", b"alert\\u0000"), whole.replace(b'"acme"', b'"' + b"x" * 5000 + b'"')]
    poison += [whole.replace(b'"chat_id":9', b'"chat_id":"@\\u0000"')]
    await rig.publish(*poison, *encoded(1, 2))
    async with rig.service():
        await eventually(rig.left, 0)
    kept = await rig.rows("SELECT payload, company_id, channel, reason, attempts FROM deliveries_dlq")
    assert {base64.b64decode(payload["raw_base64"]) for payload, *_ in kept} == set(poison)
    assert {tuple(rest) for _, *rest in kept} == {("acme", "telegram", "undecodable", 0)}
    assert {row[0] for row in await rig.attempts()} == {"alert-1", "alert-2"}


async def test_what_was_sent_before_a_redelivery_is_not_sent_again(rig: Rig) -> None:
    (raw,) = encoded(1)
    async with rig.service():
        await rig.publish(raw)
        await eventually(rig.left, 0)
    # The same delivery again, and somebody who takes it first and gives it back: it comes as a redelivery.
    await rig.publish(raw + b" ")
    client = await nats.connect(rig.bus.url())
    subscription = await client.jetstream().pull_subscribe_bind("deliverd-telegram", DELIVER)
    (message,) = await subscription.fetch(1, timeout=5)
    await message.nak()
    await client.close()
    async with rig.service() as service:
        await eventually(rig.left, 0)
        assert await service.metric("ba_delivery_messages_settled_total", how="ack") == 1
    assert rig.provider.summary()["total"] == 1
    assert len(await rig.attempts()) == 1


async def test_a_worker_killed_in_the_middle_of_a_call_loses_nothing(rig: Rig) -> None:
    rig.provider.control(hang=True)
    async with rig.service() as service:
        await rig.publish(*encoded(*range(1, 21)))
        await rig.provider.wait_for(20)
        await service.kill()
    rig.provider.control(clear=True, clear_received=True)
    async with rig.service():
        await eventually(rig.left, 0)
    sent = [row for row in await rig.attempts() if row[2] == "sent"]
    assert {row[0] for row in sent} == {f"alert-{chat}" for chat in range(1, 21)}
    assert len(sent) == 20


async def test_rows_wait_for_the_database_and_messages_wait_for_their_rows(rig: Rig, postgres_server: Postgres) -> None:
    async with rig.service() as service:
        postgres_server.kill()
        try:
            await rig.publish(*encoded(*range(1, 51)))
            await rig.provider.wait_for(50)
            report = await service.readiness(503)
            assert "timescaledb" in report
            assert await rig.left() == 50
        finally:
            postgres_server.start()
        await eventually(rig.left, 0, within_s=20)
        await service.readiness(200)
    assert len(await rig.attempts()) == 50
    assert rig.provider.summary()["total"] == 50


async def test_a_stop_lets_calls_end_and_hands_the_rest_back(rig: Rig) -> None:
    rig.provider.control(delay_ms=500)
    # One company gets five of six hands.
    async with rig.service(BA_DELIVERD_CONCURRENCY="6") as service:
        await rig.publish(*encoded(*range(1, 21)))
        await rig.provider.wait_for(5)
        assert await service.terminate() == 0
    begun = rig.provider.summary()["total"]
    assert begun == len(await rig.attempts()) == 5
    assert await rig.left() == 15
    rig.provider.control(clear=True)
    async with rig.service():
        await eventually(rig.left, 0)
    assert rig.provider.summary()["total"] == 20


async def test_a_stop_hands_back_what_does_not_end_within_the_grace(rig: Rig) -> None:
    rig.provider.control(hang=True)
    async with rig.service(BA_SHUTDOWN_GRACE_S="0.5") as service:
        await rig.publish(*encoded(*range(1, 4)))
        await rig.provider.wait_for(3)
        assert await service.terminate() == 0
        assert '"handed_back":3' in service.log.read_text()
    assert await rig.left() == 3


async def test_a_stop_of_a_paused_channel_hands_back_at_once(rig: Rig) -> None:
    rig.provider.control(status=401)
    # Longer than a program under test may take to end.
    async with rig.service(BA_SHUTDOWN_GRACE_S="300") as service:
        await rig.publish(*encoded(*range(1, 31)))
        await service.readiness(503)
        assert await service.terminate() == 0
    assert await rig.left() == 30


async def test_a_refused_credential_pauses_the_channel_and_fills_no_queue(rig: Rig) -> None:
    rig.provider.control(status=401)
    async with rig.service() as service:
        await rig.publish(*encoded(*range(1, 31)))
        assert "channel" in await service.readiness(503)
        assert await service.metric("ba_delivery_paused") == 1
        assert await rig.letters() == []
        rig.provider.control(clear=True)
        await eventually(rig.left, 0)
        await service.readiness(200)
        assert await service.metric("ba_delivery_paused") == 0
    assert len([row for row in await rig.attempts() if row[2] == "sent"]) == 30
    assert await rig.letters() == []


async def test_no_more_calls_at_once_than_allowed(rig: Rig) -> None:
    rig.provider.control(hang=True)
    # One company gets three of four hands.
    async with rig.service(BA_DELIVERD_CONCURRENCY="4") as service:
        await rig.publish(*encoded(*range(1, 11)))
        await rig.provider.wait_for(3)
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 10.0)
        assert rig.provider.summary()["total"] == 3
        rig.provider.control(clear=True)
        await eventually(rig.left, 0)


async def test_a_service_waits_for_dependencies_that_are_away_at_its_start(rig: Rig) -> None:
    rig.bus.kill()
    async with running("deliverd_telegram", rig.folder, rig.settings, ready=False) as service:
        assert "nats" in await service.readiness(503)
        rig.bus.start()
        await service.readiness(200)
        await rig.publish(*encoded(1))
        await eventually(rig.left, 0)


def to_token(token: str) -> OutgoingMessage:
    """Write a delivery to an FCM token, or to a topic."""
    target = target_at("fcm", token)
    identifier = delivery_id("acme", "a", "fcm", token)
    made = structs.replace(envelope(1), delivery_id=identifier, alert_id="a", channel="fcm", target=target)
    return OutgoingMessage(deliver_subject("fcm", "acme"), encode_envelope(made), str(identifier))


@asynccontextmanager
async def fcm(nats_server: Nats, dsn: str, folder: Path) -> AsyncIterator[tuple[FakeFcm, Program, Publisher]]:
    """Run FCM's service, with somebody who publishes."""
    key = folder / "account.json"
    async with FakeFcm(credentials_file=key) as provider:
        settings = {
            "BA_NATS_URL": nats_server.url("deliverd_fcm"),
            "BA_PG_DSN": dsn,
            "BA_FCM_CREDENTIALS_FILE": str(key),
            "BA_FCM_BASE_URL": provider.url,
        }
        async with running("deliverd_fcm", folder, settings) as service, connection(nats_server.url()) as admin:
            await admin.connected()
            yield provider, service, Publisher(admin)


async def test_fcm_runs_through_the_same_pipeline(nats_server: Nats, dsn: str, tmp_path: Path) -> None:
    async with fcm(nats_server, dsn, tmp_path) as (provider, service, publisher):
        await publisher.publish_all([to_token(f"token-{number}") for number in range(20)] + [to_token("/topics/news")])
        await eventually(lambda: service.metric("ba_deliveries_total", status="sent"), 21.0)
        assert provider.summary()["accepted"] == 21
        assert provider.summary()["tokens"]["total"] == 1


async def test_a_probe_whose_credential_is_refused_is_not_the_last_one(
    nats_server: Nats, dsn: str, tmp_path: Path
) -> None:
    """The first delivery has tried a fresh token already; those that come later do so as probes."""
    async with fcm(nats_server, dsn, tmp_path) as (provider, service, publisher):
        provider.control(status=401)
        await publisher.publish(to_token("first"))
        await service.readiness(503)
        await publisher.publish_all([to_token("second"), to_token("third")])
        # Each has been refused with the old token and with a fresh one.
        await eventually(lambda: _calls_of_at_least(provider, 7), True, within_s=40)
        provider.control(clear=True)
        await eventually(lambda: service.metric("ba_deliveries_total", status="sent"), 3.0, within_s=60)


async def _calls_of_at_least(provider: FakeFcm, count: int) -> bool:
    return int(provider.summary()["total"]) >= count
