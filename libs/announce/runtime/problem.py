"""Errors as RFC 9457 problem documents."""

import http
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Problem(Exception):  # noqa: N818 - the RFC's name for it
    """An error that the client is told about.

    Args:
        status: the HTTP status.
        kind: names the kind of problem; it ends the document's `type`.
        detail: what is wrong this time, for a person.
        headers: further response headers.
        more: further members of the document.
    """

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def document(self) -> dict[str, object]:
        """Return the problem's members."""
        title = http.HTTPStatus(self.status).phrase
        return {
            "type": f"urn:broad-announce:problem:{self.kind}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> web.Response:
        """Return the document as a response."""
        return web.Response(
            status=self.status,
            body=msgspec.json.encode(self.document()),
            headers=self.headers,
            content_type="application/problem+json",
        )


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error of a handler into a problem document."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except web.HTTPException as error:
        if error.status < http.HTTPStatus.BAD_REQUEST:
            raise
        kind = http.HTTPStatus(error.status).phrase.lower().replace(" ", "-")
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return Problem(error.status, kind, error.reason, allowed).response()
    except Exception:
        log.exception("request failed", extra={"fields": {"method": request.method, "route": _route(request)}})
        return Problem(500, "internal-error", "This is our fault; it has been logged.").response()


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource else "none"
