"""`python -m announce.bus.setup`: creates the streams, or brings them up to date. Run as NATS's admin user."""

import asyncio
import logging

from nats.errors import Error as NatsError
from nats.js.client import JetStreamContext
from nats.js.errors import BadRequestError
from nats.js.errors import Error as JetStreamError

from announce.bus.connection import connection
from announce.bus.settings import StreamSettings
from announce.bus.streams import stream_configs
from announce.observe.logging import configure, event
from announce.runtime.backoff import Backoff
from announce.runtime.settings import load

log = logging.getLogger(__name__)


async def create_streams(context: JetStreamContext, settings: StreamSettings) -> None:
    """Create every stream that is missing, and update those that differ."""
    for config in stream_configs(settings):
        try:
            await context.add_stream(config)
        except BadRequestError:
            await context.update_stream(config)
        event(log, logging.INFO, "stream ready", stream=config.name)


async def _setup() -> None:
    settings = load(StreamSettings)
    backoff = Backoff()
    async with connection(settings.nats_url.get_secret_value()) as bus:
        while True:
            client = await bus.connected()
            try:
                return await create_streams(client.jetstream(), settings)
            except (NatsError, JetStreamError, TimeoutError) as error:
                event(log, logging.WARNING, "streams not ready yet", error=type(error).__name__)
                await asyncio.sleep(backoff.next())


if __name__ == "__main__":
    configure("bus-setup", "info")
    asyncio.run(_setup())
