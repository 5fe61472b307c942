import socket
from abc import ABC, abstractmethod
from typing import Self

from aiohttp import web

from announce_fakes.contract import Reply
from announce_fakes.script import ScriptError

_BACKLOG = 1024


class HttpListener(ABC):
    """An HTTP server that listens while it is entered as a context manager.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Listens.

        Raises:
            OSError: The address can't be bound.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, backlog=_BACKLOG)
        self._port = listener.getsockname()[1]
        try:
            self._prepare()
        except BaseException:
            listener.close()
            raise
        # Cancelling the handler when its client goes is what ends a call that hangs.
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, backlog=_BACKLOG).start()

    async def stop(self) -> None:
        """Closes, connections included."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """The base URL, reachable from this machine, without a slash at its end."""
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)  # noqa: S104  compared
        return f"http://[{reachable}]:{self._port}" if ":" in reachable else f"http://{reachable}:{self._port}"

    def _prepare(self) -> None:  # noqa: B027  most have nothing to prepare
        """Makes ready what depends on the port, before the first request is answered."""

    @abstractmethod
    async def _inspect(self, request: web.BaseRequest) -> object:
        """Does what a request of an operator's asks for, and gives the answer's content.

        Raises:
            ScriptError: A parameter is wrong.
            TimeoutError: What it waits for didn't come.
            LookupError: Nothing is at this path.
        """

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            reply = Reply.of(200, await self._inspect(request))
        except ScriptError as error:
            reply = Reply.of(400, {"error": str(error)})
        except LookupError:
            reply = Reply.of(404, {"error": f"nothing is at {request.path}"})
        except TimeoutError as error:
            reply = Reply.of(408, {"error": str(error)})
        return response(reply)


def response(reply: Reply) -> web.Response:
    """A reply as the web server takes it."""
    headers = {"Content-Type": reply.content_type}
    if reply.headers:
        headers |= reply.headers
    return web.Response(status=reply.status, body=reply.body, headers=headers)
