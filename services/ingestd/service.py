"""Composing the service."""

import asyncio
import logging
import sys
import time
from contextlib import AsyncExitStack

from aiohttp import web

from announce.bus.connection import DEPENDENCY as NATS
from announce.bus.connection import Connection, connection
from announce.bus.consumer import Consumer
from announce.bus.deadends import DeadEnds
from announce.bus.publisher import Publisher
from announce.bus.settings import BusSettings
from announce.bus.streams import ALERTS, alerts_subject, durable_consumer
from announce.observe.endpoints import routes
from announce.observe.health import Health
from announce.observe.logging import event
from announce.runtime.background import background
from announce.runtime.problem import problems
from announce.runtime.settings import ServiceSettings, load
from announce.runtime.web import listening
from announce.store.cipher import SecretCipher
from announce.store.database import DEPENDENCY as DATABASE
from announce.store.database import Database, database
from announce.store.settings import SecretSettings, StoreSettings
from ingestd import metrics
from ingestd.acceptance import Acceptance
from ingestd.api import Api
from ingestd.fanout import Fanout
from ingestd.intake import Intake
from ingestd.keys import DEPENDENCY as KEYRING
from ingestd.keys import UPDATES as KEYRING_UPDATES
from ingestd.keys import Keys
from ingestd.lookup import DedupeLookup
from ingestd.recent import RecentAlerts
from ingestd.register import Register
from ingestd.settings import IngestdSettings
from ingestd.trimming import keep_trimming

log = logging.getLogger(__name__)

DURABLE = "ingestd"


async def serve(stopping: asyncio.Event) -> None:
    """Take alerts in until told to stop; what is under way then gets the grace to end."""
    settings, grace_s = load(IngestdSettings), load(ServiceSettings).shutdown_grace_s
    bus_settings, cipher = load(BusSettings), _cipher()
    metrics.initialise()
    # Without the database it still takes alerts in, so a load balancer should go on sending them.
    health = Health(NATS, KEYRING, optional=(DATABASE, KEYRING_UPDATES))
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(database(load(StoreSettings)))
        bus_settings = load(BusSettings)
        bus = await stack.enter_async_context(connection(bus_settings.nats_url.get_secret_value(), health))
        keys = Keys(store, cipher, health, settings.keyring_reload_s)
        intake = _intake(store, bus, keys, settings)
        durable = durable_consumer(DURABLE, alerts_subject("*"), bus_settings)
        consumer = Consumer(bus, ALERTS, durable, settings.max_alerts_held, intake.take)
        metrics.HELD.set_function(lambda: consumer.held)
        app = web.Application(middlewares=[problems])
        app.add_routes([*routes(health), *_api(store, bus, keys, health, settings).routes()])
        trim = keep_trimming(store, settings.dedupe_window_s)
        given_up = DeadEnds(bus, ALERTS, durable, intake.bury).run(stopping)
        async with background(store.watch(health), keys.keep(), consumer.keep_alive(), trim, given_up):
            async with listening(app, settings.listen, grace_s=grace_s):
                await consumer.run(stopping)
                deadline = time.monotonic() + grace_s
            rest = await consumer.rest(deadline - time.monotonic())
            await intake.stop(rest)
    event(log, logging.INFO, "intake stopped", handed_back=len(rest))


def _cipher() -> SecretCipher:
    try:
        return SecretCipher(load(SecretSettings).secret_keys.get_secret_value())
    except ValueError as error:
        sys.exit(f"settings: {error}")


def _api(store: Database, bus: Connection, keys: Keys, health: Health, settings: IngestdSettings) -> Api:
    window_s = settings.dedupe_window_s
    lookup = DedupeLookup(store, health, window_s, settings.lookup_timeout_ms / 1000)
    return Api(settings, keys, Acceptance(bus, Publisher(bus), lookup, RecentAlerts(window_s)))


def _intake(store: Database, bus: Connection, keys: Keys, settings: IngestdSettings) -> Intake:
    register = Register(store, settings.dedupe_window_s)
    return Intake(keys, register, Fanout(store, register, Publisher(bus), Publisher(bus), settings))
