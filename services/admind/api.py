"""The JSON API."""

from aiohttp import web

routes = web.RouteTableDef()


@routes.get("/v1/ping")
async def ping(_: web.Request) -> web.Response:
    """Say that the service is there. Needs no authentication."""
    return web.json_response({"ok": True})
