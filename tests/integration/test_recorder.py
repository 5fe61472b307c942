import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from announce.bus.connection import Connection
from announce.bus.deferral import Deferral
from announce.bus.publisher import Publisher
from announce.delivery.recorder import Recorder
from announce.delivery.settlement import Settler
from announce.model.identity import row_id
from announce.model.reason import Reason
from announce.store.database import Database
from announce.store.deliveries import AttemptRow, DeadLetterRow, DeliveryRecord

NOW = datetime.now(UTC)


def poison(stream_seq: int) -> DeliveryRecord:
    """What is kept of a message that isn't an envelope; the same for the same message."""
    letter = DeadLetterRow(
        row_id(NOW, stream_seq), NOW, "acme", None, None, "fcm", None, "ba.deliver.fcm.acme", b"{}", 0,
        Reason.UNDECODABLE, None, "not an envelope", NOW,
    )  # fmt: skip
    return DeliveryRecord(dead_letter=letter)


def attempt(error: str) -> DeliveryRecord:
    row = AttemptRow(
        row_id(NOW), NOW, "acme", "a-1", uuid4(), "fcm", "token", 1, "failed", Reason.TIMEOUT,
        None, error, 1.5, None, None,
    )  # fmt: skip
    return DeliveryRecord([row])


@pytest.fixture
def settler() -> Settler:
    """One without NATS: nothing here settles a message."""
    bus = Connection("nats://127.0.0.1:1")
    return Settler("fcm", Publisher(bus), Deferral(bus))


async def counts(store: Database) -> tuple[int, int]:
    async with store.connection() as connection:
        row = await connection.fetchrow(
            "SELECT (SELECT count(*) FROM deliveries) AS attempts, (SELECT count(*) FROM deliveries_dlq) AS letters"
        )
    assert row is not None
    return row["attempts"], row["letters"]


async def test_a_row_that_is_stored_already_is_kept_once_and_holds_up_nobody(store: Database, settler: Settler) -> None:
    recorder = Recorder("fcm", store, settler)
    await recorder.record(poison(1))
    await asyncio.gather(recorder.record(poison(1)), recorder.record(poison(2)), recorder.record(attempt("late")))
    assert await counts(store) == (1, 2)


async def test_a_row_that_cannot_be_stored_fails_alone(store: Database, settler: Settler) -> None:
    recorder = Recorder("fcm", store, settler)
    await asyncio.gather(*map(recorder.record, [attempt("fine"), attempt("nul \0"), attempt("fine too"), poison(1)]))
    assert await counts(store) == (2, 1)
