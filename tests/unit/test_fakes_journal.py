import asyncio
import time
import tracemalloc
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from announce_fakes.contract import Call, Reply
from announce_fakes.counts import Entry
from announce_fakes.journal import Journal, Selection
from announce_fakes.script import read_parameters

REQUEST = make_mocked_request("POST", "/", headers={"Authorization": "Bearer s", "X-A": "1"})


def record(journal: Journal, target: str, key: str, status: int = 200, body: bytes = b"{}") -> Entry:
    call = Call(target, key, "/send", body, lambda: Reply(200, b""))
    return journal.record(call, REQUEST, status)


def sums(journal: Journal) -> dict[str, Any]:
    return {name: value for name, value in journal.summary().items() if name != "repeated_ids"}


def test_summary_counts_calls_and_what_was_accepted_more_than_once() -> None:
    journal = Journal()
    for target, key, status in [
        ("a", "1", 500),
        ("a", "1", 200),
        ("a", "1", 200),
        ("a", "1", 200),
        ("b", "2", 200),
        ("b", "3", 200),
        ("c", "4", 503),
        ("d", "", 200),
    ]:
        record(journal, target, key, status)
    assert sums(journal) == {
        "total": 8,
        "accepted": 5,
        "by_status": {"200": 6, "500": 1, "503": 1},
        "targets": 4,
        "targets_repeated": 2,
        "ids": 3,
        "ids_repeated": 1,
        "repeats": 2,
        "forgotten": 0,
    }
    assert journal.summary()["repeated_ids"] == {"1": 3}


def test_only_the_newest_entries_are_kept_and_the_totals_go_on() -> None:
    journal = Journal(keep=3)
    for number in range(5):
        record(journal, "a" if number < 3 else "b", "same" if number < 3 else str(number))
    assert sums(journal) == {
        "total": 5,
        "accepted": 5,
        "by_status": {"200": 5},
        "targets": 2,
        "targets_repeated": 1,
        "ids": 3,
        "ids_repeated": 0,
        "repeats": 0,
        "forgotten": 2,
    }
    assert [entry["ordinal"] for entry in journal.select(Selection())] == [3, 4, 5]


def test_bodies_are_kept_for_the_newest_only() -> None:
    journal = Journal(keep_whole=2)
    for number in range(3):
        record(journal, "a", str(number), body=b'{"n":%d}' % number)
    first, second, third = journal.select(Selection())
    assert "message" not in first
    assert second["message"] == {"n": 1}
    assert third["message"] == {"n": 2}
    assert third["body"] == '{"n":2}'
    assert third["headers"] == {"X-A": "1"}


def test_a_body_that_is_no_text_is_shown_as_base64() -> None:
    journal = Journal()
    record(journal, "a", "1", body=b"\xff\x00")
    record(journal, "a", "2", body=b"plain")
    binary, plain = journal.select(Selection())
    assert binary["body_base64"] == "/wA="
    assert plain["body"] == "plain"
    assert "message" not in plain


def test_entries_are_chosen_by_target_ordinal_and_number() -> None:
    journal = Journal()
    for number in range(1, 7):
        record(journal, "odd" if number % 2 else "even", str(number))

    def chosen(**selection: object) -> list[object]:
        return [entry["id"] for entry in journal.select(read_parameters(Selection, selection))]

    assert chosen(target="odd") == ["1", "3", "5"]
    assert chosen(target="o*") == ["1", "3", "5"]
    assert chosen(target="even", since=2) == ["4", "6"]
    assert chosen(limit=2) == ["5", "6"]
    assert chosen(limit=0) == []


def test_times_are_ordered_and_wall_time_is_near_now() -> None:
    journal = Journal()
    record(journal, "a", "1")
    record(journal, "a", "2")
    first, second = journal.select(Selection())
    assert first["mono_us"] <= second["mono_us"]
    assert abs(second["wall_us"] / 1e6 - time.time()) < 5


def test_an_entry_is_settled_once_its_status_is_known() -> None:
    journal = Journal()
    entry = record(journal, "a", "1", 0)
    assert sums(journal)["by_status"] == {"0": 1}
    journal.settle(entry, 200)
    assert sums(journal)["by_status"] == {"200": 1}
    assert sums(journal)["accepted"] == 1


def test_settling_what_was_cleared_or_forgotten_changes_nothing() -> None:
    journal = Journal(keep=1)
    cleared = record(journal, "a", "1", 0)
    journal.clear()
    journal.settle(cleared, 200)
    assert sums(journal)["accepted"] == 0
    forgotten = record(journal, "a", "1", 0)
    record(journal, "b", "2")
    journal.settle(forgotten, 200)
    assert sums(journal)["accepted"] == 1


def test_ordinals_go_on_when_the_journal_is_cleared() -> None:
    journal = Journal()
    record(journal, "a", "1")
    journal.clear()
    assert record(journal, "a", "2").ordinal == 2
    assert sums(journal)["total"] == 1


async def test_waiting_ends_with_the_call_that_was_waited_for() -> None:
    journal = Journal()
    calls = asyncio.create_task(journal.wait_for(2))
    accepted = asyncio.create_task(journal.wait_for(1, of="accepted", target="b"))
    ids = asyncio.create_task(journal.wait_for(2, of="ids"))
    await asyncio.sleep(0)
    record(journal, "a", "1")
    record(journal, "b", "1", 500)
    await calls
    assert not accepted.done()
    record(journal, "b", "2")
    await accepted
    await ids
    await journal.wait_for(1, target="a")


async def test_waiting_in_vain_says_how_many_came() -> None:
    journal = Journal()
    record(journal, "a", "1")
    with pytest.raises(TimeoutError, match=r"2 accepted expected, 1 came within 0\.01 s"):
        await journal.wait_for(2, of="accepted", timeout_s=0.01)


async def test_settling_wakes_who_waits_for_acceptance() -> None:
    journal = Journal()
    entry = record(journal, "a", "1", 0)
    waiting = asyncio.create_task(journal.wait_for(1, of="accepted"))
    await asyncio.sleep(0)
    journal.settle(entry, 200)
    await waiting


def test_an_entry_takes_few_bytes() -> None:
    journal = Journal(keep_whole=10)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(5_000):
            record(journal, f"device-{number % 100}", f"11111111-2222-3333-4444-{number:012d}")
        per_entry = (tracemalloc.get_traced_memory()[0] - before) / 5_000
    finally:
        tracemalloc.stop()
    assert per_entry < 450
