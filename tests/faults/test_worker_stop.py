"""SIGTERM while 500 deliveries are in flight."""

import time

import pytest

from tests.eventually import eventually
from tests.faults.rig import Rig

pytestmark = pytest.mark.timeout(180)

GRACE_S = 3
SLACK_S = 2
ENDING = [f"ending_{number}" for number in range(250)]
ENDLESS = [f"endless_{number}" for number in range(200)]
WAITING = [f"waiting_{number}" for number in range(50)]
"""They have failed once, and wait for their second try."""


async def test_what_is_in_flight_ends_or_goes_back(fcm: Rig) -> None:
    fcm.provider.control(target="ending_*", hang=True)
    fcm.provider.control(target="endless_*", hang=True)
    fcm.provider.control(target="waiting_*", status=500)
    names = [*ENDING, *ENDLESS, *WAITING]
    settings = {
        "BA_SHUTDOWN_GRACE_S": str(GRACE_S),
        "BA_DELIVERD_CONCURRENCY": "1000",
        "BA_DELIVERD_RETRY_BASE_MS": "20000",
        "BA_DELIVERD_RETRY_MAX_MS": "20000",
    }
    async with fcm.service(**settings) as service:
        await fcm.publish(names)
        await fcm.provider.wait_for(len(names), timeout_s=20)
        await eventually(lambda: fcm.count("failed"), len(WAITING))
        assert await service.metric("ba_deliveries_in_flight") == len(names)
        service.process.terminate()
        began = time.monotonic()
        fcm.provider.control(target="ending_*", fail=False)
        assert await service.process.wait() == 0
        took_s = time.monotonic() - began
    print(f"gone after {took_s:.2f} s of at most {GRACE_S} + {SLACK_S} s")
    assert took_s < GRACE_S + SLACK_S
    assert await fcm.count("sent") == len(ENDING)
    await eventually(fcm.left, len(ENDLESS) + len(WAITING))
    # Whatever it held, it settled, each once: nobody has to wait until JetStream misses it.
    assert await fcm.handed_out() == len(names) == fcm.witness.settled.total()
    assert fcm.witness.twice() == []
    fcm.provider.control(clear=True)
    async with fcm.service() as service:
        assert (await fcm.empty()).sent == len(names)
        await fcm.settled_once(service, before=len(names))
    assert fcm.sends() == dict.fromkeys(names, 1)
    rows = await fcm.rows("SELECT attempts FROM deliveries WHERE status = 'sent' AND alert_id LIKE 'waiting_%'")
    assert rows == [(2,)] * len(WAITING)
