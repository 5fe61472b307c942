"""Run the embedded ClickHouse server: `python -m announce.archive.embedded --path DIR --port N`."""

import argparse
import asyncio
import ipaddress
import logging
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from announce.archive.embedded.connection import EngineUnavailableError, refuse_second_process
from announce.archive.embedded.engine import Engine
from announce.archive.embedded.server import Server
from announce.archive.embedded.settings import CredentialSettings
from announce.observe.logging import event
from announce.runtime.service import run
from announce.runtime.settings import ServiceSettings, load

log = logging.getLogger(__name__)

_SPOOL: Final = "http_spool"
# Clients put parameters in the URL. This is ClickHouse's own limit, http_max_uri_size.
_MAX_URL_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 18


def main() -> None:
    """Serve until a signal comes; what can't work ends with one line that says why."""
    parser = argparse.ArgumentParser("announce.archive.embedded", description="ClickHouse's engine behind HTTP.")
    parser.add_argument("--path", type=Path, required=True, help="folder of the data; made if it isn't there")
    parser.add_argument(
        "--port", type=int, required=True, help="where to listen; 0 takes a free one, which the log names"
    )
    parser.add_argument("--host", default="127.0.0.1", type=_loopback, help="a loopback address (127.0.0.1)")
    options = parser.parse_args()
    folder: Path = options.path.resolve()
    try:
        spool = _prepare(folder)
    except (EngineUnavailableError, OSError) as error:
        sys.exit(f"clickhouse: {error}")
    run("clickhouse", partial(_serve, folder, spool, options.host, options.port))


def _loopback(host: str) -> str:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise argparse.ArgumentTypeError(
            f"{host} is not a loopback address, and this server is for its own machine only"
        )
    return host


def _prepare(folder: Path) -> Path:
    """Make the folder, and in it an empty one for what is on its way; what a crash left there is gone."""
    if "?" in str(folder):
        raise EngineUnavailableError(f"{folder}: the engine takes a question mark in a path for something else")
    folder.mkdir(parents=True, exist_ok=True)
    refuse_second_process(folder)
    spool = folder / _SPOOL
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir()
    return spool


async def _serve(folder: Path, spool: Path, host: str, port: int, stopping: asyncio.Event) -> None:
    grace_s = load(ServiceSettings).shutdown_grace_s
    engine = Engine(folder)
    try:
        await engine.open()
    except EngineUnavailableError as error:
        sys.exit(f"clickhouse: {error}")
    server = Server(engine, spool, load(CredentialSettings))
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=grace_s,
        handler_cancellation=True,
        auto_decompress=False,
        max_line_size=_MAX_URL_BYTES,
        read_bufsize=_READ_BYTES,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        sys.exit(f"clickhouse: can't listen on {host}:{port}: {reason}")
    address = runner.addresses[0]
    event(log, logging.INFO, "listening", host=address[0], port=address[1], version=engine.version)
    await stopping.wait()
    deadline = asyncio.get_running_loop().time() + grace_s
    await runner.cleanup()
    if not await engine.close(max(0, deadline - asyncio.get_running_loop().time())):
        log.error("a statement does not end; leaving it")
        logging.shutdown()
        # The engine's thread can't be stopped, and the interpreter would wait for it. The data outlives that, as it
        # outlives SIGKILL.
        os._exit(1)


if __name__ == "__main__":
    main()
