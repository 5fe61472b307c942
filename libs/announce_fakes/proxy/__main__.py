import argparse
import json
import sys

import uvloop

from announce_fakes.process import stop_signal
from announce_fakes.proxy.control import ProxyControl
from announce_fakes.proxy.fault_proxy import FaultProxy


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m announce_fakes.proxy",
        description="TCP proxy that breaks what passes. Prints one JSON line when it listens, and ends on SIGTERM or"
        " SIGINT. /control?mode=pass|refuse|stall|stall_up|stall_down|drop_replies&delay_ms=&bytes_per_s=&cut=1",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--listen", type=int, default=0, metavar="PORT", help="default: a free one")
    parser.add_argument("--upstream", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument("--control-port", type=int, default=0, metavar="N", help="default: a free one")
    return parser.parse_args()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdigit()):
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


async def _serve(arguments: argparse.Namespace) -> None:
    stop = stop_signal()
    proxy = FaultProxy(*arguments.upstream, host=arguments.host, port=arguments.listen)
    async with proxy, ProxyControl(proxy, arguments.host, arguments.control_port) as control:
        print(json.dumps({"listen": f"{proxy.host}:{proxy.port}", "control": control.url}), flush=True)
        await stop.wait()


if __name__ == "__main__":
    try:
        uvloop.run(_serve(_arguments()))
    except OSError as error:
        sys.exit(f"announce_fakes.proxy: {error}")
