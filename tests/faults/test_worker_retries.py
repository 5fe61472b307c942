"""Retries with the settings that a service has when nobody sets any."""

from contextlib import AsyncExitStack
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from tests.eventually import eventually
from tests.faults.rig import Rig

pytestmark = pytest.mark.timeout(180)

ATTEMPTS = 10
WAITS_S = 11.1
ALLOWED_S = 0.5
RETRIED = ("timeout_408", "limited")
RETRY_AFTER_S = {"fcm": 0, "telegram": 1}

# Where a row lies, and which transaction wrote it, changes with each update.
ROWS = """
SELECT tableoid::regclass::text, ctid::text, xmin::text, alert_id, attempts, status, last_error, created_at, latency_ms
FROM deliveries
WHERE channel = $1
ORDER BY alert_id, attempts
"""
LETTERS = "SELECT alert_id, attempts, last_error FROM deliveries_dlq WHERE channel = $1 ORDER BY alert_id"


class Attempt(NamedTuple):
    """A row of `deliveries`, with what tells whether it is still as it was written."""

    table: str
    place: str
    transaction: str
    alert_id: str
    ordinal: int
    status: str
    last_error: str | None
    created_at: datetime
    latency_ms: float


async def attempts(tested: Rig) -> list[Attempt]:
    return [Attempt(*row) for row in await tested.rows(ROWS, tested.channel)]


def prepare(tested: Rig) -> None:
    """Have the provider fail each target in its way."""
    provider, address = tested.provider, tested.address
    for number in range(ATTEMPTS, 0, -1):  # the newest rule comes first
        provider.control(target=address("failing"), status=500, error_code=f"ERROR_{number}", times=1)
    provider.control(target=address("refused"), status=400, error_code="INVALID_ARGUMENT")
    provider.control(target=address("timeout_408"), status=408, times=1)
    provider.control(target=address("limited"), status=429, retry_after=RETRY_AFTER_S[tested.channel], times=1)
    provider.control(target=address("recovers"), status=503, times=2)


async def test_the_defaults_end_a_delivery_when_they_must_and_not_before(channels: tuple[Rig, Rig]) -> None:
    for channel in channels:
        prepare(channel)
        await channel.publish(["failing", "refused", "recovers", *RETRIED])
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(channel.service()) for channel in channels]
        early = [await first_attempts(channel) for channel in channels]
        found = await channels[0].empty()
        assert (found.sent, found.failed, found.expired) == (6, 4, 0)
        for channel, service, before in zip(channels, services, early, strict=True):
            await channel.settled_once(service)
            rows = await attempts(channel)
            assert set(before) <= set(rows)
            check(rows, await channel.rows(LETTERS, channel.channel))


async def first_attempts(tested: Rig) -> list[Attempt]:
    """Wait until the target that always fails has failed three times; return the rows of that moment."""

    async def failed() -> bool:
        return len(of(await attempts(tested), "failing")) >= 3

    await eventually(failed, expected=True)
    return await attempts(tested)


def check(rows: list[Attempt], letters: list[tuple[Any, ...]]) -> None:
    """Check what one channel leaves behind."""
    failing, refused = letters
    assert (failing[:2], refused[:2]) == (("failing", ATTEMPTS), ("refused", 1))
    exhausted(of(rows, "failing"))
    assert failing[2] == of(rows, "failing")[-1].last_error
    assert [row.status for row in of(rows, "refused")] == ["failed"]
    for name in RETRIED:
        assert [row.status for row in of(rows, name)] == ["failed", "sent"], name
    recovered = of(rows, "recovers")
    assert [(row.ordinal, row.status) for row in recovered] == [(1, "failed"), (2, "failed"), (3, "sent")]
    assert [row.last_error is None for row in recovered] == [False, False, True]


def exhausted(rows: list[Attempt]) -> None:
    """Check the attempts at a target that always fails."""
    assert [row.ordinal for row in rows] == list(range(1, ATTEMPTS + 1))
    assert {row.status for row in rows} == {"failed"}
    for row in rows:
        assert f"ERROR_{row.ordinal}" in (row.last_error or "").split(": ")
    waits = [
        (after.created_at - before.created_at).total_seconds() - before.latency_ms / 1000
        for before, after in pairwise(rows)
    ]
    print(f"waits of {sum(waits):.3f} s in all: {', '.join(f'{wait:.3f}' for wait in waits)}")
    assert abs(sum(waits) - WAITS_S) <= ALLOWED_S


def of(rows: list[Attempt], alert_id: str) -> list[Attempt]:
    return [row for row in rows if row.alert_id == alert_id]
