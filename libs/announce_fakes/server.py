from collections.abc import Awaitable, Callable
from typing import Any, Generic

from aiohttp import web

from announce_fakes.contract import Contract, S
from announce_fakes.endpoint import Endpoint
from announce_fakes.journal import Selection, What
from announce_fakes.listener import HttpListener
from announce_fakes.script import read_parameters, request_parameters

_OWN_PATHS = frozenset(("/control", "/received", "/healthz"))

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class FakeServer(HttpListener, Generic[S]):
    """A provider's HTTP server on a socket, scripted by /control and looked at by /received.

    Args:
        script: The parameters that this provider's /control takes.
        contract: How it answers a message.
        host: The address to listen on.
        port: The port; 0 takes a free one.
    """

    def __init__(self, script: type[S], contract: Contract[S], host: str, port: int) -> None:
        super().__init__(host, port)
        self._script = script
        self.messages = Endpoint(contract)

    async def stop(self) -> None:
        """Lets go of every call that hangs, and closes."""
        self.messages.rules.forget()
        await super().stop()

    def control(self, /, **parameters: object) -> dict[str, Any]:
        """Does what GET /control with these parameters does (see `Script`), and gives the rules in force.

        Raises:
            ScriptError: A parameter is wrong.
        """
        self._control(parameters)
        return self._state()

    def received(self, /, **selection: object) -> list[dict[str, Any]]:
        """The entries that GET /received with these parameters shows (see `Selection`), oldest first.

        Raises:
            ScriptError: A parameter is wrong.
        """
        return self.messages.journal.select(read_parameters(Selection, selection))

    def summary(self) -> dict[str, Any]:
        """The sums that GET /received?summary=1 shows."""
        return self.messages.journal.summary()

    async def wait_for(
        self, number: int, *, of: What = "calls", target: str | None = None, timeout_s: float = 10.0
    ) -> None:
        """Returns once `number` calls have come since the journal was cleared; see `Journal.wait_for`.

        Raises:
            TimeoutError: Fewer came within `timeout_s` seconds; the message says how many.
        """
        await self.messages.journal.wait_for(number, of=of, target=target, timeout_s=timeout_s)

    def _control(self, parameters: dict[str, object]) -> None:
        self._apply(read_parameters(self._script, parameters))

    def _apply(self, script: S) -> None:
        """Puts a script in force, the provider's own settings included."""
        self.messages.apply(script)

    def _state(self) -> dict[str, Any]:
        return {"rules": [rule.describe() for rule in self.messages.rules.rules()]}

    def _endpoint(self, path: str) -> Handler:
        """What answers a request on a path that is the provider's own."""
        del path
        return self.messages.handle

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # Not `request.path`, which is decoded anew for every request.
        path = request.raw_path.partition("?")[0]
        return await (super()._handle(request) if path in _OWN_PATHS else self._endpoint(path)(request))

    async def _inspect(self, request: web.BaseRequest) -> object:
        if request.path == "/healthz":
            return {"status": "ok"}
        if request.path == "/control":
            return self.control(**await request_parameters(request))
        if request.method == "DELETE":
            self.messages.journal.clear()
            return self.summary()
        selection = read_parameters(Selection, await request_parameters(request))
        if selection.wait_for:
            await self.wait_for(
                selection.wait_for, of=selection.of, target=selection.target, timeout_s=selection.timeout_s
            )
        return self.summary() if selection.summary else {"received": self.messages.journal.select(selection)}
