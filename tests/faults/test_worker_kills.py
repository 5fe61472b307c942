"""kill -9 of a channel's service at each step between receipt and acknowledgement, and then a new process."""

import pytest

from tests.eventually import eventually
from tests.faults.rig import Rig
from tests.programs import Program

pytestmark = pytest.mark.timeout(180)

ACK_WAIT_S = "2"
STALLED_ACK_WAIT_S = "4"
"""For a test in which NATS doesn't hear for a while that work goes on."""


async def killed(rig: Rig, service: Program) -> int:
    """Kill a service, and have NATS notice; return how many messages had been handed out by then."""
    await service.kill()
    # What a proxy holds back of a dead process must not reach anybody any more.
    rig.postgres.cut()
    rig.nats.cut()
    await rig.postgres.resume()
    await rig.nats.resume()

    async def waiting() -> int:
        return (await rig.consumer()).num_waiting or 0

    await eventually(waiting, 0)
    return await rig.handed_out()


async def test_killed_before_and_while_the_provider_is_called(fcm: Rig) -> None:
    fcm.provider.control(target="lost_*", hang=True, status=200)
    fcm.provider.control(target="hung_*", hang=True)
    names = [f"{kind}_{number}" for number in range(10) for kind in ("lost", "hung")]
    async with fcm.service(BA_NATS_ACK_WAIT_S=ACK_WAIT_S, BA_DELIVERD_CONCURRENCY="8") as service:
        await fcm.publish(names)
        await fcm.provider.wait_for(5)
        handed_out = await killed(fcm, service)
    fcm.provider.control(clear=True)
    async with fcm.service(BA_NATS_ACK_WAIT_S=ACK_WAIT_S) as service:
        found = await fcm.empty()
        await fcm.settled_once(service, handed_out)
    assert found.sent == len(names)
    under_way = fcm.calls("hang")
    taken = {name for name in under_way if name.startswith("lost_")}
    print(f"{len(under_way)} of {len(names)} calls under way when it was killed, {len(taken)} of them taken")
    assert 2 <= len(taken) < len(under_way) <= 8
    # What the provider took, but couldn't say so, comes again; what wasn't under way is called once.
    repeated = {name for name, times in fcm.sends().items() if times > 1}
    assert taken <= repeated <= set(under_way)
    assert fcm.calls("") == dict.fromkeys(names, 1)


async def test_killed_between_the_provider_s_answer_and_the_commit(fcm: Rig) -> None:
    kept, lost = [[f"{kind}_{number}" for number in range(10)] for kind in ("kept", "lost")]
    async with fcm.service(BA_NATS_ACK_WAIT_S=ACK_WAIT_S) as service:
        await fcm.publish(kept)
        await fcm.empty()
        fcm.postgres.stall()
        await fcm.publish(lost)
        await eventually(lambda: service.metric("ba_delivery_attempts_total", status="sent"), 20.0)
        assert await fcm.left() == len(lost)
        handed_out = await killed(fcm, service)
    assert await fcm.count("sent") == len(kept)
    async with fcm.service(BA_NATS_ACK_WAIT_S=ACK_WAIT_S) as service:
        assert (await fcm.empty()).sent == len(kept) + len(lost)
        await fcm.settled_once(service, handed_out)
    assert fcm.sends() == dict.fromkeys(kept, 1) | dict.fromkeys(lost, 2)


async def test_killed_between_the_commit_and_the_acknowledgement(fcm: Rig) -> None:
    fcm.provider.control(hang=True)
    names = [f"target_{number}" for number in range(10)]
    async with fcm.service(BA_NATS_ACK_WAIT_S=STALLED_ACK_WAIT_S) as service:
        await fcm.publish(names)
        await fcm.provider.wait_for(len(names))
        fcm.nats.stall("up")
        fcm.provider.control(clear=True)
        await eventually(lambda: fcm.count("sent"), len(names))
        assert await fcm.left() == len(names)
        handed_out = await killed(fcm, service)
    assert fcm.witness.settled == {}
    async with fcm.service(BA_NATS_ACK_WAIT_S=STALLED_ACK_WAIT_S) as service:
        assert (await fcm.empty()).sent == len(names)
        await fcm.settled_once(service, handed_out)
        assert await service.metric("ba_delivery_messages_settled_total", how="ack") == len(names)
        assert await service.metric("ba_delivery_attempts_total") == 0
    assert fcm.sends() == dict.fromkeys(names, 1)
