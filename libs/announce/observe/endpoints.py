"""The routes that every service has: /healthz, /readyz, /metrics."""

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from announce.observe.health import Health


def routes(health: Health) -> web.RouteTableDef:
    """Make the operating routes of a service with this health."""
    table = web.RouteTableDef()

    @table.get("/healthz")
    async def alive(_: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    @table.get("/readyz")
    async def ready(_: web.Request) -> web.Response:
        body = msgspec.json.encode({"ready": health.ready, "dependencies": health.report()})
        return web.Response(body=body, status=200 if health.ready else 503, content_type="application/json")

    @table.get("/metrics")
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return table
