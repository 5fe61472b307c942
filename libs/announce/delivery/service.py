"""A channel's service: takes deliveries from JetStream, moves them through the pipeline, stops without losing any."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, NoReturn

from aiohttp import web

from announce.bus.connection import DEPENDENCY as NATS
from announce.bus.connection import connection
from announce.bus.consumer import Consumer
from announce.bus.deadends import DeadEnds
from announce.bus.deferral import Deferral, DueDeliveries
from announce.bus.pace import SharedPace
from announce.bus.publisher import Publisher
from announce.bus.settings import BusSettings
from announce.bus.streams import DELIVER, deliver_subject, durable_consumer
from announce.delivery import metrics
from announce.delivery.burial import DeadEndBurial
from announce.delivery.history import HistoryLookup
from announce.delivery.moves import Moves
from announce.delivery.outage import Outage
from announce.delivery.pace import Limits, Pace
from announce.delivery.parking import Parking
from announce.delivery.pause import DEPENDENCY as CHANNEL
from announce.delivery.pause import Pause
from announce.delivery.pipeline import Pipeline
from announce.delivery.recorder import Recorder
from announce.delivery.retry_budget import RetryBudget
from announce.delivery.settings import DeliverySettings
from announce.delivery.settlement import HandBack, Settler
from announce.delivery.watch import watch_oldest, watch_others
from announce.delivery.worker import Worker
from announce.model.channel import Channel, CredentialSource
from announce.observe.endpoints import routes
from announce.observe.health import Health
from announce.observe.logging import event
from announce.outbound.client import HttpClient, outbound_client
from announce.outbound.settings import OutboundSettings
from announce.runtime.background import background
from announce.runtime.service import run
from announce.runtime.settings import ServiceSettings, load
from announce.runtime.web import listening
from announce.store.database import DEPENDENCY as DATABASE
from announce.store.database import database
from announce.store.settings import StoreSettings

log = logging.getLogger(__name__)

FLUSH_S: Final = 2.0


class ChannelParts(NamedTuple):
    """What makes one channel's service different from another's."""

    channel: Channel
    credentials: CredentialSource
    limits: Limits | None = None
    """What the provider takes, where it has to be kept to."""


def run_worker(service: str, listen: str, make: Callable[[HttpClient], ChannelParts]) -> NoReturn:
    """Run a channel's service until a signal stops it.

    Args:
        service: the service's name, as in `python -m <service>`.
        listen: host:port of its health and metrics.
        make: makes the channel, given the client for calls of its credential source.
    """

    async def serve(stopping: asyncio.Event) -> None:
        await _serve(listen, make, stopping)

    run(service, serve)


async def _serve(listen: str, make: Callable[[HttpClient], ChannelParts], stopping: asyncio.Event) -> None:
    settings, grace_s = load(DeliverySettings), load(ServiceSettings).shutdown_grace_s
    health = Health(NATS, DATABASE, CHANNEL)
    app = web.Application()
    app.add_routes(routes(health))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listening(app, listen, grace_s=1))
        store = await stack.enter_async_context(database(load(StoreSettings)))
        bus_settings = load(BusSettings)
        bus = await stack.enter_async_context(connection(bus_settings.nats_url.get_secret_value(), health))
        client = await stack.enter_async_context(outbound_client(load(OutboundSettings)))
        channel, credentials, limits = make(client)
        metrics.initialise(channel.name)
        publisher = Publisher(bus)
        settler = Settler(channel.name, publisher, Deferral(bus))
        pause, moves = Pause(channel.name, health, Outage(settings.outage_after)), Moves()
        pipeline = Pipeline(
            channel=channel,
            credentials=credentials,
            client=client,
            policy=settings.policy(),
            budget=RetryBudget(settings.retry_share, settings.retry_free_per_s),
            recorder=Recorder(channel.name, store, settler),
            pause=pause,
            history=HistoryLookup(store),
            moves=moves,
            pace=Pace(limits, SharedPace(bus, channel.name)) if limits else None,
        )
        parking = Parking(settings.max_in_flight)
        worker = Worker(pipeline, settler, parking, settings.concurrency)
        name = f"deliverd-{channel.name}"
        durable = durable_consumer(name, deliver_subject(channel.name, "*"), bus_settings)
        consumer = Consumer(
            bus,
            DELIVER,
            durable,
            settings.max_in_flight,
            worker.take,
            limit=lambda: parking.limit if pause.fetching else 0,
        )
        metrics.IN_FLIGHT.labels(channel.name).set_function(lambda: consumer.held)
        burial = DeadEndBurial(channel.name, store, publisher)
        async with background(
            store.watch(health),
            consumer.keep_alive(),
            worker.run(),
            DueDeliveries(bus, name, channel.name, bus_settings).run(stopping),
            DeadEnds(bus, DELIVER, durable, burial.bury).run(stopping),
            moves.load(store, channel.name),
            watch_oldest(bus, channel.name),
            watch_others(bus, channel.name, pause, parking, consumer.look_again),
        ):
            await consumer.run(stopping)
            handed_back = await _stop(worker, consumer, settler, grace_s)
        event(log, logging.INFO, "worker stopped", channel=channel.name, handed_back=handed_back)


async def _stop(worker: Worker, consumer: Consumer, settler: Settler, grace_s: float) -> int:
    """Let calls under way end, hand the rest back, and return how many that were."""
    worker.stop()
    rest = await consumer.rest(grace_s)
    for delivery in rest:
        settler.settle(delivery, HandBack())
    await settler.flush(FLUSH_S)
    return len(rest)
