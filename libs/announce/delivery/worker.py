"""A channel's service: takes deliveries from JetStream, moves them through the pipeline, stops without losing any."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, NoReturn

from aiohttp import web

from announce.bus.connection import DEPENDENCY as NATS
from announce.bus.connection import connection
from announce.bus.consumer import Consumer, Delivery
from announce.bus.settings import BusSettings
from announce.bus.streams import DELIVER, deliver_subject, durable_consumer
from announce.delivery import metrics
from announce.delivery.job import Job
from announce.delivery.pause import DEPENDENCY as CHANNEL
from announce.delivery.pause import Pause
from announce.delivery.pipeline import HistoryLookup, Pipeline
from announce.delivery.recorder import Recorder
from announce.delivery.settings import DeliverySettings
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

FAILED_STEP_DELAY_S: Final = 30.0


class ChannelParts(NamedTuple):
    """What makes one channel's service different from another's."""

    channel: Channel
    credentials: CredentialSource


class Worker:
    """Moves deliveries through a pipeline with a fixed number of hands.

    A delivery that waits for its next try takes up no hand. Everything taken is either settled by the recorder or
    handed back.
    """

    def __init__(self, pipeline: Pipeline, concurrency: int) -> None:
        self._pipeline = pipeline
        self._concurrency = concurrency
        self._ready: asyncio.Queue[Delivery | Job] = asyncio.Queue()
        self._waiting: dict[Job, asyncio.TimerHandle] = {}
        self._stopping = False

    def take(self, delivery: Delivery) -> None:
        """Take a message; it is worked on when a hand is free."""
        self._ready.put_nowait(delivery)

    async def run(self) -> None:
        """Work. Ends by cancellation."""
        async with asyncio.TaskGroup() as hands:
            for _ in range(self._concurrency):
                hands.create_task(self._work())

    async def stop(self) -> None:
        """Begin nothing any more: hand back what waits, and let calls that are under way end."""
        self._stopping = True
        for job, timer in list(self._waiting.items()):
            timer.cancel()
            await self._hand_back(job)
        self._waiting.clear()
        while not self._ready.empty():
            await self._hand_back(self._ready.get_nowait())

    async def _work(self) -> None:
        while True:
            item = await self._ready.get()
            try:
                await self._step(item)
            except Exception:
                # Whatever one message brings about, the others go on, and it isn't lost.
                log.exception("step failed")
                await self._hand_back(item, FAILED_STEP_DELAY_S)

    async def _step(self, item: Delivery | Job) -> None:
        job = await self._pipeline.begin(item) if isinstance(item, Delivery) else item
        if job is None:
            return
        wait_s = await self._pipeline.advance(job)
        if wait_s is None:
            return
        if self._stopping:
            await self._hand_back(job)
        else:
            self._waiting[job] = asyncio.get_running_loop().call_later(wait_s, self._resume, job)

    def _resume(self, job: Job) -> None:
        del self._waiting[job]
        self._ready.put_nowait(job)

    async def _hand_back(self, item: Delivery | Job, delay_s: float = 0.0) -> None:
        delivery = item if isinstance(item, Delivery) else item.delivery
        if not delivery.settled:
            metrics.SETTLED.labels(self._pipeline.channel.name, "hand_back").inc()
            await delivery.hand_back(delay_s)


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
        channel, credentials = make(client)
        metrics.initialise(channel.name)
        pipeline = Pipeline(
            channel=channel,
            credentials=credentials,
            client=client,
            policy=settings.policy(),
            recorder=Recorder(channel.name, store),
            pause=Pause(channel.name, health),
            history=HistoryLookup(store),
        )
        worker = Worker(pipeline, settings.concurrency)
        durable = durable_consumer(f"deliverd-{channel.name}", deliver_subject(channel.name, "*"), bus_settings)
        consumer = Consumer(bus, DELIVER, durable, settings.max_in_flight, worker.take)
        metrics.IN_FLIGHT.labels(channel.name).set_function(lambda: consumer.held)
        async with background(store.watch(health), consumer.keep_alive(), worker.run()):
            await consumer.run(stopping)
            await worker.stop()
            handed_back = await consumer.hand_back_rest(grace_s)
        event(log, logging.INFO, "worker stopped", channel=channel.name, handed_back=handed_back)
