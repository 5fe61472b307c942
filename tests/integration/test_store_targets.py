"""What is remembered of targets that providers called gone or moved, and what becomes of their subscriptions."""

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from announce.model.alert import Severity
from announce.model.identity import row_id
from announce.model.reason import Reason
from announce.store.database import Database, RowRefused
from announce.store.deliveries import AttemptRow, DeadLetterRow, DeliveryRecord, record_deliveries
from announce.store.keyring import create_company
from announce.store.subscriptions import Subscription, matching_subscriptions, save_subscriptions
from announce.store.targets import GoneTarget, MovedTarget, moved_targets
from tests.eventually import eventually


@pytest.fixture
async def companies(store: Database) -> Database:
    for company in ("acme", "other"):
        await create_company(store, company, company)
    return store


def now() -> datetime:
    return datetime.now(UTC)


def gone(address: str, at: datetime | None = None, company: str = "acme") -> DeliveryRecord:
    return DeliveryRecord(gone=GoneTarget(company, "telegram", address, Reason.TARGET_GONE, at or now()))


def moved(address: str, new_address: str, at: datetime | None = None, company: str = "acme") -> DeliveryRecord:
    return DeliveryRecord(moved=MovedTarget(company, "telegram", address, new_address, at or now()))


async def record(store: Database, *records: DeliveryRecord) -> None:
    """Write records, and once more, as after a commit whose answer was lost."""
    await record_deliveries(store, records, again=False)
    before = await state(store), await moved_targets(store, "telegram")
    await record_deliveries(store, records, again=True)
    assert (await state(store), await moved_targets(store, "telegram")) == before


async def save(store: Database, *addresses: str, company: str = "acme") -> None:
    await save_subscriptions(store, company, [Subscription("telegram", address) for address in addresses])


async def state(store: Database) -> list[tuple[object, ...]]:
    async with store.connection() as connection:
        rows = await connection.fetch(
            "SELECT company_id, channel, address, disabled_reason, disabled_at FROM subscriptions ORDER BY 1, 2, 3"
        )
    assert all((row["disabled_at"] is None) == (row["disabled_reason"] is None) for row in rows)
    return [tuple(row) for row in rows]


async def reasons(store: Database, company: str = "acme") -> dict[object, object]:
    """Tell each address of a company why it is disabled."""
    return {address: reason for owner, _, address, reason, _ in await state(store) if owner == company}


async def reached(store: Database) -> list[str]:
    return [each.address for each in await matching_subscriptions(store, "acme", Severity.CRITICAL, [], 0, 100)]


async def test_a_target_that_is_gone_is_disabled_for_the_company_that_met_it(companies: Database) -> None:
    await save(companies, "1", "2", "3")
    await save(companies, "1", company="other")
    await save_subscriptions(companies, "acme", [Subscription("fcm", "1")])
    await record(companies, gone("1"), gone("3"), gone("1"), gone("unknown"), gone("1", company="nobody"))
    assert await reached(companies) == ["2", "1"]
    assert await reasons(companies, "other") == {"1": None}
    async with companies.connection() as connection:
        disabled = "SELECT address, disabled_reason FROM subscriptions WHERE disabled_at IS NOT NULL ORDER BY 1"
        rows = await connection.fetch(disabled)
    assert [tuple(row) for row in rows] == [("1", "target_gone"), ("3", "target_gone")]


async def test_the_subscription_is_disabled_with_the_row_or_not_at_all(companies: Database) -> None:
    await save(companies, "1")
    at = now()
    row = AttemptRow(
        row_id(at), at, "acme", "a", uuid4(), "telegram", "1", 1, "failed", Reason.TARGET_GONE,
        403, "nul \0", 1.5, None, None,
    )  # fmt: skip
    for again in (False, True):
        with pytest.raises(RowRefused):
            await record_deliveries(companies, [DeliveryRecord([row], gone=gone("1").gone)], again=again)
    assert await reached(companies) == ["1"]
    await record(companies, DeliveryRecord([row._replace(last_error="gone")], gone=gone("1").gone))
    assert await reached(companies) == []


async def test_what_was_saved_after_the_attempt_began_stays(companies: Database) -> None:
    await save(companies, "1", "2")
    began_at = now()
    await save(companies, "1", "2")
    await record(companies, gone("1", began_at), moved("2", "22", began_at))
    assert await reached(companies) == ["1", "2"]
    await record(companies, gone("1"))
    assert await reached(companies) == ["2"]
    # Saving it says that it is there again.
    await save(companies, "1")
    assert await reached(companies) == ["1", "2"]
    assert await reasons(companies) == {"1": None, "2": None}


async def test_a_subscription_goes_where_its_target_goes(companies: Database) -> None:
    await save_subscriptions(companies, "acme", [Subscription("telegram", "-1", Severity.CRITICAL, ["db"])])
    before = await matching_subscriptions(companies, "acme", Severity.CRITICAL, ["db"], 0, 9)
    await save(companies, "-1", company="other")
    await record(companies, moved("-1", "-100"))
    assert await matching_subscriptions(companies, "acme", Severity.WARNING, ["db"], 0, 9) == []
    assert await matching_subscriptions(companies, "acme", Severity.CRITICAL, ["db"], 0, 9) == [
        before[0]._replace(address="-100")
    ]
    # The other company hears of it when it sends there; whoever asks before knows it already.
    assert await reasons(companies, "other") == {"-1": None}
    assert await moved_targets(companies, "telegram") == {"-1": "-100"}
    assert await moved_targets(companies, "fcm") == {}


async def test_each_thread_moves_for_itself(companies: Database) -> None:
    await save(companies, "-1", "-1/7", "-1/8")
    await record(companies, moved("-1/7", "-100/7"))
    assert sorted(await reached(companies)) == ["-1", "-1/8", "-100/7"]


@pytest.mark.parametrize("already", ["enabled", "disabled"])
async def test_where_the_new_address_is_known_already_the_old_one_is_disabled(
    companies: Database, already: str
) -> None:
    await save(companies, "-1", "-100")
    if already == "disabled":
        await record(companies, gone("-100"))
    await record(companies, moved("-1", "-100"))
    target_gone = None if already == "enabled" else "target_gone"
    assert await reasons(companies) == {"-1": "target_moved", "-100": target_gone}


async def test_two_that_become_one_are_one(companies: Database) -> None:
    await save(companies, "-1", "@group")
    await record(companies, moved("@group", "-100"), moved("-1", "-100"))
    assert await reasons(companies) == {"-100": None, "@group": "target_moved"}


async def test_of_two_moves_of_one_target_the_later_one_counts(companies: Database) -> None:
    await save(companies, "-1")
    at = now()
    older, newer = moved("-1", "-100", at), moved("-1", "-200", at + timedelta(seconds=1))
    await record(companies, newer, older)
    await record(companies, older)
    assert await reached(companies) == ["-200"]
    assert await moved_targets(companies, "telegram") == {"-1": "-200"}


async def test_a_target_may_be_gone_where_it_went(companies: Database) -> None:
    await save(companies, "-1")
    await record(companies, gone("-100"), moved("-1", "-100"))
    assert await reasons(companies) == {"-100": "target_gone"}


async def test_a_move_to_itself_is_none(companies: Database) -> None:
    await save(companies, "-1")
    await record(companies, moved("-1", "-1"))
    assert await reasons(companies) == {"-1": None}
    assert await moved_targets(companies, "telegram") == {}


@pytest.mark.parametrize("order", list(itertools.permutations([("a", "b"), ("b", "c"), ("c", "d")])))
async def test_moves_are_followed_to_the_end(store: Database, order: Sequence[tuple[str, str]]) -> None:
    at = now()
    for place, (address, new_address) in enumerate(order):
        await record(store, moved(address, new_address, at + timedelta(seconds=place)))
    assert await moved_targets(store, "telegram") == {"a": "d", "b": "d", "c": "d"}


async def test_a_target_that_came_back_is_where_it_was(store: Database) -> None:
    at = now()
    for place, step in enumerate([("a", "b"), ("b", "c"), ("c", "a")]):
        await record(store, moved(*step, at + timedelta(seconds=place)))
    assert await moved_targets(store, "telegram") == {"b": "a", "c": "a"}
    await record(store, moved("a", "b", at + timedelta(seconds=9)))
    assert await moved_targets(store, "telegram") == {"a": "b", "c": "b"}


def poison(number: int) -> DeliveryRecord:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    letter = DeadLetterRow(
        row_id(at, number), at, "acme", None, None, "telegram", None, "ba.deliver.telegram.acme", b"{}", 0,
        Reason.UNDECODABLE, None, "not JSON", at,
    )  # fmt: skip
    return DeliveryRecord(dead_letter=letter)


async def cross(
    store: Database, obstacle: str, arguments: Sequence[object], *writes: Coroutine[None, None, None]
) -> None:
    """Let writes run into an obstacle, and take it away when each of them waits, for that or for another one.

    Two that take the same two rows in different orders have one each by then, and will want the other's.
    """

    async def waiting() -> int:
        async with store.connection() as connection:
            return int(await connection.fetchval(WAITING))

    async with asyncio.TaskGroup() as together, store.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(obstacle, *arguments)
        for write in writes:
            together.create_task(write)
        await eventually(waiting, len(writes))
        await transaction.rollback()


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
LETTER = """
    INSERT INTO deliveries_dlq
        (id, created_at, company_id, channel, original_subject, payload, attempts, reason, last_error, first_attempt_at)
    VALUES ($1, $2, 'acme', 'telegram', '', '{}', 0, '', '', $2)
"""
ROW_OF_2 = "SELECT FROM subscriptions WHERE company_id = 'acme' AND address = '2' FOR UPDATE"


@pytest.mark.parametrize("again", [False, True])
async def test_replicas_that_write_the_same_rows_never_block_each_other(companies: Database, *, again: bool) -> None:
    rows = [poison(number) for number in (1, 2, 3)]
    # The obstacle is to be a row, not the chunk that it is in.
    await record(companies, poison(4))

    async def write(order: Sequence[DeliveryRecord]) -> None:
        with suppress(RowRefused):  # by COPY, which knows no ON CONFLICT; it is tried again row by row
            await record_deliveries(companies, order, again=again)

    row = rows[1].dead_letter
    assert row is not None
    await cross(companies, LETTER, (row.id, row.created_at), write(rows), write(rows[::-1]))
    async with companies.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM deliveries_dlq") == 4


async def test_replicas_that_mark_the_same_targets_never_block_each_other(companies: Database) -> None:
    await save(companies, "1", "2", "3")
    one, two = [moved("1", "10"), gone("2"), gone("3")], [moved("3", "30"), gone("2"), gone("1")]
    await cross(
        companies,
        ROW_OF_2,
        (),
        record_deliveries(companies, one, again=False),
        record_deliveries(companies, two, again=False),
    )
    assert (await reasons(companies))["2"] == "target_gone"
    assert await moved_targets(companies, "telegram") == {"1": "10", "3": "30"}


async def test_whoever_saves_subscriptions_never_blocks_another_one(companies: Database) -> None:
    await save(companies, "1", "2", "3")
    said = [moved("1", "10"), gone("2"), gone("3")]
    await cross(
        companies,
        ROW_OF_2,
        (),
        record_deliveries(companies, said, again=False),
        save(companies, "1", "2", "3"),
        save(companies, "3", "2", "1"),
    )


async def test_companies_that_meet_the_same_moves_never_block_each_other(companies: Database) -> None:
    steps = [("1", "10"), ("2", "20"), ("3", "30")]
    await cross(
        companies,
        "INSERT INTO moved_targets VALUES ('telegram', '2', '22', now())",
        (),
        record_deliveries(companies, [moved(*step) for step in steps], again=False),
        record_deliveries(companies, [moved(*step, company="other") for step in steps[::-1]], again=False),
    )
    assert await moved_targets(companies, "telegram") == dict(steps)
