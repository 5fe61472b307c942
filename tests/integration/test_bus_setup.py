import asyncio

import pytest
from nats.aio.client import Client
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.client import JetStreamContext

from announce.bus.connection import Connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.settings import BusSettings, StreamSettings
from announce.bus.setup import create_streams
from announce.bus.streams import DELIVER, MAX_ACK_PENDING, durable_consumer, stream_configs
from announce.runtime.background import background
from tests.eventually import eventually

FILTER = "ba.deliver.telegram.*"


async def install_as_before(jetstream: JetStreamContext) -> None:
    """Make BA_DELIVER and its durable as the first release made them, and none of the streams that came later."""
    for config in stream_configs(StreamSettings()):
        await jetstream.delete_stream(config.name or "")
    before = StreamConfig(
        name=DELIVER,
        subjects=["ba.deliver.*.*"],
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.NEW,
        max_bytes=4 << 30,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=120,
        allow_atomic=True,
    )
    durable = ConsumerConfig(
        durable_name="deliverd-telegram",
        filter_subject=FILTER,
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=30,
        max_deliver=-1,
        max_ack_pending=20_000,
    )
    await jetstream.add_stream(before)
    await jetstream.add_consumer(DELIVER, durable)


async def test_an_installation_of_before_goes_on_with_what_it_holds(
    jetstream: JetStreamContext, bus: Connection
) -> None:
    await install_as_before(jetstream)
    waiting = [await jetstream.publish("ba.deliver.telegram.demo", b"%d" % number) for number in range(3)]
    await create_streams(jetstream, StreamSettings())
    taken: asyncio.Queue[Delivery] = asyncio.Queue()
    durable = durable_consumer("deliverd-telegram", FILTER, BusSettings())
    async with background(Consumer(bus, DELIVER, durable, 10, taken.put).run(asyncio.Event())), asyncio.timeout(15):
        held = [await taken.get() for _ in waiting]
    assert [each.data for each in held] == [b"0", b"1", b"2"]
    assert (await jetstream.consumer_info(DELIVER, "deliverd-telegram")).config.max_ack_pending == MAX_ACK_PENDING


async def test_setting_up_twice_changes_nothing(jetstream: JetStreamContext) -> None:
    await create_streams(jetstream, StreamSettings())
    before = [info.config for info in await jetstream.streams_info()]
    await create_streams(jetstream, StreamSettings())
    assert [info.config for info in await jetstream.streams_info()] == before
    assert {config.name for config in before} == {config.name for config in stream_configs(StreamSettings())}


FORBIDDEN = [
    "ba.deliver.fcm.demo",
    "ba.deferred.fcm.demo.00000000-0000-0000-0000-000000000001",
    "ba.alerts.demo",
    "$KV.BA_PACE.fcm.key",
    "$JS.API.DIRECT.GET.KV_BA_PACE.$KV.BA_PACE.fcm.key",
    "$JS.API.STREAM.MSG.GET.BA_DEFERRED",
    "$JS.API.STREAM.MSG.GET.BA_ALERTS",
    "$JS.API.STREAM.MSG.DELETE.BA_ALERTS",
    "$JS.API.STREAM.MSG.DELETE.BA_DEFERRED",
    "$JS.API.STREAM.PURGE.BA_DELIVER",
    "$JS.API.STREAM.UPDATE.BA_DELIVER",
    "$JS.API.CONSUMER.CREATE.BA_DELIVER.deliverd-telegram.ba.deliver.>",
    "$JS.API.CONSUMER.CREATE.BA_DELIVER.deliverd-telegram.ba.deliver.fcm.*",
    "$JS.API.CONSUMER.CREATE.BA_DELIVER.deliverd-telegram",
    "$JS.API.CONSUMER.DURABLE.CREATE.BA_DELIVER.deliverd-telegram",
    "$JS.API.CONSUMER.CREATE.BA_DEFERRED.deliverd-telegram.ba.deferred.fcm.*.*",
    "$JS.API.CONSUMER.DELETE.BA_DELIVER.deliverd-telegram",
    "$JS.API.CONSUMER.MSG.NEXT.BA_DEFERRED.deliverd-fcm",
    "$JS.API.CONSUMER.MSG.NEXT.BA_ADVISORIES.deliverd-fcm",
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.BA_DELIVER.deliverd-telegram",
]


async def test_a_service_may_do_no_other_service_s_work(bus: Connection, caplog: pytest.LogCaptureFixture) -> None:
    client: Client = bus.client
    for subject in FORBIDDEN:
        await client.publish(subject, b"{}")

    async def refused() -> list[str]:
        texts = [getattr(record, "fields", {}).get("error", "") for record in caplog.records]
        return [subject for subject in FORBIDDEN if not any(f'"{subject}"'.lower() in text for text in texts)]

    nothing: list[str] = []
    await eventually(refused, nothing)


async def test_a_durable_s_filter_must_be_the_one_that_was_asked_for(
    bus: Connection, jetstream: JetStreamContext
) -> None:
    reply = await bus.client.request(
        "$JS.API.CONSUMER.CREATE.BA_DELIVER.deliverd-telegram.ba.deliver.telegram.*",
        b'{"stream_name":"BA_DELIVER","config":{"durable_name":"deliverd-telegram","name":"deliverd-telegram",'
        b'"ack_policy":"explicit","filter_subject":"ba.deliver.>"}}',
    )
    assert b'"error"' in reply.data
    assert await jetstream.consumers_info(DELIVER) == []
