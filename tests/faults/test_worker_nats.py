"""NATS killed, cut off and stalled while a channel's service is at work."""

import asyncio

import pytest

from tests.eventually import eventually
from tests.faults.rig import Rig

pytestmark = pytest.mark.timeout(180)

NAMES = [f"target_{number}" for number in range(210)]
EACH = 30


async def settled_at_most_once(rig: Rig, settled: float) -> None:
    """Check what is known of settlements where the connection broke: what was on its way then, nobody has counted."""
    handed_out, heard_of = await rig.handed_out(), rig.witness.settled.total()
    print(f"settled {settled:g} of {handed_out} messages handed out; NATS heard of {heard_of}")
    assert heard_of <= settled <= handed_out
    assert rig.witness.twice() == []


async def test_nats_is_killed(fcm: Rig) -> None:
    fcm.provider.control(target="late_*", hang=True)
    late = [f"late_{number}" for number in range(50)]
    async with fcm.service(BA_NATS_ACK_WAIT_S="3") as service:
        await fcm.publish([*late, *NAMES])
        await fcm.provider.wait_for(len(late) + 1)
        await asyncio.to_thread(fcm.servers.bus.kill)
        # Some calls end while nobody can be told.
        fcm.provider.control(target="late_*", fail=False)
        await eventually(lambda: written(fcm, "late_"), len(late))
        await asyncio.to_thread(fcm.servers.bus.start)
        assert (await fcm.empty()).sent == len(late) + len(NAMES)
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 0.0)
        await settled_at_most_once(fcm, await service.metric("ba_delivery_messages_settled_total"))
    # No answer was lost, so nothing came twice.
    assert fcm.sends() == dict.fromkeys([*late, *NAMES], 1)


async def handed_out_more(rig: Rig, before: int) -> None:
    async def more() -> bool:
        return await rig.handed_out() > before

    await eventually(more, expected=True)


async def written(rig: Rig, prefix: str) -> int:
    return len(await rig.rows("SELECT FROM deliveries WHERE status = 'sent' AND alert_id ^@ $1", prefix))


async def test_the_connection_to_nats_is_cut_many_times(fcm: Rig) -> None:
    fcm.provider.control(delay_ms=50)
    async with fcm.service(BA_NATS_ACK_WAIT_S="3", BA_DELIVERD_CONCURRENCY="8") as service:
        await fcm.publish(NAMES[:EACH])
        await fcm.provider.wait_for(1)
        for first in range(EACH, len(NAMES), EACH):
            # Each time when the connection that the last cut led to has brought something, and that is being worked on.
            await fcm.nats.wait_until(lambda counters: counters.active > 0)
            before = await fcm.handed_out()
            await fcm.publish(NAMES[first : first + EACH])
            await handed_out_more(fcm, before)
            assert fcm.nats.cut() == 1
            await fcm.nats.wait_until(lambda counters: counters.active == 0)
        assert (await fcm.empty()).sent == len(NAMES)
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 0.0)
        await settled_at_most_once(fcm, await service.metric("ba_delivery_messages_settled_total"))
    assert fcm.sends() == dict.fromkeys(NAMES, 1)


async def test_what_is_still_held_and_comes_again_is_not_sent_twice(fcm: Rig) -> None:
    """NATS hears nothing of work that goes on, so it hands that out again, and the process now holds it twice."""
    names, markers = NAMES[:20], [f"marker_{number}" for number in range(5)]
    fcm.provider.control(target="target_*", hang=True)
    async with fcm.service(BA_NATS_ACK_WAIT_S="1") as service:
        await fcm.publish(names)
        await fcm.provider.wait_for(len(names))
        fcm.nats.stall("up")
        await eventually(lambda: redelivered(fcm), expected=True)
        for number, marker in enumerate(markers, 1):
            # They come after what came again: when they are written, the process has dealt with that.
            await fcm.publish([marker])
            await eventually(lambda: written(fcm, "marker_"), number)
        await fcm.nats.resume()
        fcm.provider.control(clear=True)
        assert (await fcm.empty()).sent == len(names) + len(markers)
        await eventually(lambda: service.metric("ba_deliveries_in_flight"), 0.0)
        await settled_at_most_once(fcm, await service.metric("ba_delivery_messages_settled_total"))
    assert fcm.sends() == dict.fromkeys([*names, *markers], 1)


async def redelivered(rig: Rig) -> bool:
    """Tell whether each message has been handed out more than once."""
    return await rig.left() == (await rig.consumer()).num_redelivered
