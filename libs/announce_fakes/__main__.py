import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import uvloop

from announce_fakes import FakeFcm, FakeTelegram, FakeWebhook
from announce_fakes.process import stop_signal
from announce_fakes.telegram import DEFAULT_TOKEN


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m announce_fakes",
        description="Fake FCM, Telegram and webhook receiver. Each is started when its port is given; 0 takes a free"
        " one. Prints one JSON line with their URLs when they listen, and ends on SIGTERM or SIGINT.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--fcm-port", type=int, metavar="N")
    parser.add_argument("--telegram-port", type=int, metavar="N")
    parser.add_argument("--webhook-port", type=int, metavar="N")
    parser.add_argument("--service-account", type=Path, metavar="FILE", help="FCM's key file; made when it isn't there")
    parser.add_argument("--token-uri", metavar="URL", help="the key file's token_uri (default: this FCM's own address)")
    parser.add_argument("--telegram-token", default=DEFAULT_TOKEN, metavar="TOKEN", help="default %(default)s")
    arguments = parser.parse_args()
    if arguments.fcm_port is not None and arguments.service_account is None:
        parser.error("--fcm-port: needs --service-account FILE")
    if arguments.fcm_port is arguments.telegram_port is arguments.webhook_port is None:
        parser.error("give at least one of --fcm-port, --telegram-port and --webhook-port")
    return arguments


def _fakes(arguments: argparse.Namespace) -> Iterator[tuple[str, FakeFcm | FakeTelegram | FakeWebhook]]:
    host = arguments.host
    if arguments.fcm_port is not None:
        file, uri = arguments.service_account, arguments.token_uri
        yield "fcm", FakeFcm(host=host, port=arguments.fcm_port, credentials_file=file, token_uri=uri)
    if arguments.telegram_port is not None:
        yield "telegram", FakeTelegram(host=host, port=arguments.telegram_port, token=arguments.telegram_token)
    if arguments.webhook_port is not None:
        yield "webhook", FakeWebhook(host=host, port=arguments.webhook_port)


async def _serve(arguments: argparse.Namespace) -> None:
    stop = stop_signal()
    async with contextlib.AsyncExitStack() as stack:
        urls = {}
        for name, fake in _fakes(arguments):
            await stack.enter_async_context(fake)
            urls[name] = fake.url
        print(json.dumps(urls), flush=True)
        await stop.wait()


if __name__ == "__main__":
    try:
        uvloop.run(_serve(_arguments()))
    except (OSError, ValueError) as error:
        sys.exit(f"announce_fakes: {error}")
