import asyncio

from aiohttp import web

from admind.api import routes
from admind.settings import AdmindSettings
from announce.observe.endpoints import routes as operating_routes
from announce.observe.health import Health
from announce.runtime.background import background
from announce.runtime.problem import problems
from announce.runtime.service import run
from announce.runtime.settings import ServiceSettings, load
from announce.runtime.web import listening
from announce.store.database import DEPENDENCY as DATABASE
from announce.store.database import database
from announce.store.settings import StoreSettings


async def serve(stopping: asyncio.Event) -> None:
    """Compose the service."""
    settings, grace_s = load(AdmindSettings), load(ServiceSettings).shutdown_grace_s
    health = Health(DATABASE)
    app = web.Application(middlewares=[problems])
    app.add_routes([*operating_routes(health), *routes])
    async with (
        database(load(StoreSettings)) as store,
        background(store.watch(health)),
        listening(app, settings.listen, grace_s=grace_s),
    ):
        await stopping.wait()


if __name__ == "__main__":
    run("admind", serve)
