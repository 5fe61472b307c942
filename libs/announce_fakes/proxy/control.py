import math
from typing import Annotated, Literal

import msgspec
from aiohttp import web

from announce_fakes.listener import HttpListener
from announce_fakes.proxy.fault_proxy import FaultProxy
from announce_fakes.proxy.weather import Counters
from announce_fakes.script import Natural, Positive, read_parameters, request_parameters

Mode = Literal["pass", "refuse", "stall", "stall_up", "stall_down", "drop_replies"]


class ProxyScript(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a caller of the proxy's /control asks for; done in this order.

    Attributes:
        mode: `pass` ends every fault; the others add one.
        delay_ms: Wait before each piece is forwarded.
        bytes_per_s: Rate of each direction of each connection.
        cut: Break every open connection.
    """

    mode: Mode | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    bytes_per_s: Positive | None = None
    cut: bool = False


class CounterSelection(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a caller of /counters waits for, if anything.

    Attributes:
        wait_for: The counter's name.
        at_least: The value to be reached.
        timeout_s: How long to wait at most, in seconds.
    """

    wait_for: str | None = None
    at_least: Natural = 1
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0

    def __post_init__(self) -> None:
        if self.wait_for is not None and self.wait_for not in Counters.__struct_fields__:
            raise ValueError(f"wait_for: must be one of {', '.join(Counters.__struct_fields__)}")


class ProxyControl(HttpListener):
    """The proxy's own HTTP server: /control, /counters and /healthz."""

    def __init__(self, proxy: FaultProxy, host: str, port: int) -> None:
        super().__init__(host, port)
        self._proxy = proxy

    async def _inspect(self, request: web.BaseRequest) -> object:
        if request.path == "/healthz":
            return {"status": "ok"}
        if request.path not in ("/control", "/counters"):
            raise LookupError(request.path)
        parameters = await request_parameters(request)
        if request.path == "/control":
            await self._apply(read_parameters(ProxyScript, parameters))
        else:
            await self._wait(read_parameters(CounterSelection, parameters))
        return msgspec.to_builtins(self._proxy.counters)

    async def _wait(self, selection: CounterSelection) -> None:
        name = selection.wait_for
        if name is not None:
            await self._proxy.wait_until(lambda c: getattr(c, name) >= selection.at_least, selection.timeout_s)

    async def _apply(self, script: ProxyScript) -> None:
        proxy = self._proxy
        match script.mode:
            case None:
                pass
            case "pass":
                await proxy.resume()
            case "refuse":
                await proxy.refuse()
            case "stall":
                proxy.stall()
            case "stall_up":
                proxy.stall("up")
            case "stall_down":
                proxy.stall("down")
            case "drop_replies":
                proxy.drop_replies()
        if script.delay_ms is not None or script.bytes_per_s is not None:
            proxy.slow(delay_s=(script.delay_ms or 0.0) / 1000, bytes_per_s=script.bytes_per_s or math.inf)
        if script.cut:
            proxy.cut()
