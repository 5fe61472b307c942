"""A provider that breaks connections, hangs, drips and answers what is no answer of its own."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from announce.model.reason import Reason
from tests.faults.rig import Rig
from tests.programs import Program

pytestmark = pytest.mark.timeout(180)

ATTEMPTS = 3
EACH = 6
HUGE_BYTES = 10_000_000
GROWTH_BYTES = 32 << 20
"""Far below what the huge answers come to that are under way at once, and far above what the others need."""

# What the provider does to the calls for these targets, and the reason that stands in their rows.
FAULTS: dict[str, tuple[dict[str, Any], Reason]] = {
    "resets": ({"reset": True}, Reason.CONNECTION_FAILED),
    "silent": ({"hang": True}, Reason.TIMEOUT),
    "drips": ({"drip": 1}, Reason.TIMEOUT),
    "huge": ({"bytes": HUGE_BYTES}, Reason.UNEXPECTED_REPLY),
    "page200": ({"html": True}, Reason.UNEXPECTED_REPLY),
    "page502": ({"html": True, "status": 502}, Reason.PROVIDER_ERROR),
}

ATTEMPT_ROWS = """
SELECT alert_id, attempts, status, reason FROM deliveries WHERE channel = $1 AND alert_id ^@ $2 ORDER BY 1, 2
"""
LETTERS = "SELECT alert_id, attempts, reason FROM deliveries_dlq WHERE channel = $1 AND alert_id ^@ $2 ORDER BY 1"


def peak_bytes(service: Program) -> int:
    """The most memory that the process has had, in bytes."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peak) * 1024


def names(kind: str) -> list[str]:
    return [f"{kind}_{number}" for number in range(EACH)]


async def test_whatever_the_provider_does_to_a_call_it_ends_as_the_policy_says(channels: tuple[Rig, Rig]) -> None:
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(channel.service(**settings(channel))) for channel in channels]
        for channel in channels:
            await channel.publish(names("before"))
        await channels[0].empty()
        begun_with = [peak_bytes(service) for service in services]
        for channel in channels:
            await misbehave(channel)
        found = await channels[0].empty()
        for channel, service, begun in zip(channels, services, begun_with, strict=True):
            await channel.settled_once(service)
            grown = peak_bytes(service) - begun
            print(f"memory grew by {grown / 1e6:.1f} MB over {begun / 1e6:.1f} MB")
            assert grown < GROWTH_BYTES < HUGE_BYTES * EACH
    assert (found.sent, found.failed, found.expired) == (2 * 2 * EACH, 2 * len(FAULTS) * EACH, 2 * EACH)
    for channel in channels:
        for kind, (_, reason) in FAULTS.items():
            await has_failed(channel, kind, reason)
        assert channel.sends().keys().isdisjoint(names("late"))
        # Only where the answer was lost, or was none, can the provider have taken it more than once.
        repeated = {name.partition("_")[0] for name, times in channel.sends().items() if times > 1}
        assert repeated <= {"drips", "huge", "page200"}


def settings(channel: Rig) -> dict[str, str]:
    return {
        f"BA_{channel.channel.upper()}_TIMEOUT_S": "1",
        "BA_DELIVERD_MAX_ATTEMPTS": str(ATTEMPTS),
        "BA_DELIVERD_RETRY_BASE_MS": "50",
    }


async def misbehave(channel: Rig) -> None:
    for kind, (fault, _) in FAULTS.items():
        channel.provider.control(target=f"{channel.address(kind)}_*", **fault)
    await channel.publish(names("late"), ttl_s=0)
    await channel.publish([f"{kind}_{number}" for number in range(EACH) for kind in (*FAULTS, "good")])


async def has_failed(rig: Rig, kind: str, reason: Reason) -> None:
    attempts = await rig.rows(ATTEMPT_ROWS, rig.channel, f"{kind}_")
    assert attempts == [(name, n, "failed", reason) for name in names(kind) for n in range(1, ATTEMPTS + 1)]
    letters = await rig.rows(LETTERS, rig.channel, f"{kind}_")
    assert letters == [(name, ATTEMPTS, reason) for name in names(kind)]
