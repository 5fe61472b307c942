"""One alert to many subscriptions: how fast its envelopes leave ingestd, and how much memory that takes.

Starts TimescaleDB, nats-server (with `sync_interval: always`) and ingestd in a temporary folder, and no consumer of
BA_DELIVER. Beside the figure it prints a lower bound from the same run and the same server: a bare loop that publishes
ready-made messages of the same bytes in atomic batches, and does nothing else.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from cryptography.fernet import Fernet
from nats.aio.client import Client
from nats.js.client import JetStreamContext
from pydantic import SecretStr

from announce.bus.connection import connection
from announce.bus.publisher import MAX_BATCH
from announce.bus.settings import StreamSettings
from announce.bus.setup import create_streams
from announce.bus.streams import DELIVER
from announce.model.signature import signed_headers
from announce.store.cipher import SecretCipher
from announce.store.database import Database, database
from announce.store.keyring import create_company, create_key
from announce.store.migrate import Migrator, read_migrations
from announce.store.settings import MigrationSettings, StoreSettings
from announce.store.subscriptions import Subscription, save_subscriptions
from announce_stack import nats, ports, postgres, services
from announce_stack.server import Server
from announce_stack.supervisor import Supervisor

COMPANY: Final = "bench"
ROWS_AT_ONCE: Final = 10_000
SAMPLE_S: Final = 0.02
SETTLE_S: Final = 1.0
BARE_BATCHES_IN_FLIGHT: Final = 8
PAGE_BYTES: Final = 4096
PASSWORD: Final = "bench"  # noqa: S105 - of a server on loopback that ends with the run


@dataclass(frozen=True, slots=True)
class Bench:
    """The servers of one run."""

    dsn: str
    admin_url: str
    ingestd_url: str
    key_id: str
    secret: str
    supervisor: Supervisor

    def rss_mib(self) -> float:
        """Resident memory of ingestd."""
        pages = int(Path(f"/proc/{self._pid('ingestd')}/statm").read_text().split()[1])
        return pages * PAGE_BYTES / 2**20

    def cpu_s(self, name: str) -> float:
        """CPU time that a server has used: the figure that a busy machine changes least."""
        # The second field is the program's name in parentheses; user and system time are the 14th and 15th.
        fields = Path(f"/proc/{self._pid(name)}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _pid(self, name: str) -> int:
        return self.supervisor.running()[name].process.pid


@contextmanager
def running(folder: Path, subscriptions: int) -> Iterator[Bench]:
    """Start everything, with the company and its subscriptions, for the length of the block."""
    supervisor = Supervisor(folder)
    chosen: list[int] = []
    for _ in range(4):
        chosen.append(ports.choose(chosen))
    postgres_port, nats_port, monitor_port, ingestd_port = chosen
    passwords, fernet = nats.fresh_passwords(), Fernet.generate_key().decode()
    dsn = postgres.dsn(postgres_port, PASSWORD)
    admin_url = nats.url(nats_port, "admin", passwords)
    # A setting of ingestd's that the caller has set is tried out.
    environment = {name: value for name, value in os.environ.items() if name.startswith("BA_INGESTD_")} | {
        "BA_SECRET_KEYS": fernet,
        "BA_PG_DSN": dsn,
        "BA_NATS_URL": nats.url(nats_port, "ingestd", passwords),
    }
    try:
        start(
            supervisor,
            [
                postgres.server(folder, postgres_port, PASSWORD, print),
                nats.server(folder, nats_port, monitor_port, passwords),
            ],
        )
        key_id, secret = asyncio.run(prepare(dsn, admin_url, SecretCipher(fernet), subscriptions))
        start(supervisor, [services.server(folder, "ingestd", ingestd_port, environment)])
        yield Bench(dsn, admin_url, f"http://127.0.0.1:{ingestd_port}", key_id, secret, supervisor)
    finally:
        supervisor.stop(supervisor.running())


def start(supervisor: Supervisor, servers: Sequence[Server]) -> None:
    """Start servers and wait until they answer."""
    supervisor.start(servers)
    supervisor.wait_ready(servers)


async def prepare(dsn: str, admin_url: str, cipher: SecretCipher, subscriptions: int) -> tuple[str, str]:
    """Make the streams, the schema, the company with its subscriptions, and a key; return the key."""
    async with connection(admin_url) as bus:
        await create_streams((await bus.connected()).jetstream(), StreamSettings())
    async with database(StoreSettings(pg_dsn=SecretStr(dsn))) as store:
        await Migrator(store, read_migrations(MigrationSettings().migrations_dir)).up()
        await create_company(store, COMPANY, "Bench")
        await save(store, subscriptions)
        return await create_key(store, cipher, COMPANY)


async def save(store: Database, subscriptions: int) -> None:
    """Save subscriptions with tokens as long as FCM's."""
    begun = time.perf_counter()
    for first in range(0, subscriptions, ROWS_AT_ONCE):
        numbers = range(first, min(first + ROWS_AT_ONCE, subscriptions))
        await save_subscriptions(store, COMPANY, [Subscription("fcm", f"{number:0>152}") for number in numbers])
    print(f"saved {subscriptions:,} subscriptions in {time.perf_counter() - begun:.1f} s")


async def measure(bench: Bench, subscriptions: int) -> None:
    """Send one alert, watch its envelopes arrive, then publish as many with a bare loop."""
    async with connection(bench.admin_url) as bus:
        client = await bus.connected()
        context = client.jetstream()
        for number in range(1, 3):
            await context.purge_stream(DELIVER)
            await one_alert(bench, context, subscriptions, f"alert-{number}")
        message = await context.get_msg(DELIVER, (await context.stream_info(DELIVER)).state.last_seq)
        await context.purge_stream(DELIVER)
        await bare_loop(client, message.subject or "", message.data or b"", subscriptions)


async def one_alert(bench: Bench, context: JetStreamContext, subscriptions: int, alert_id: str) -> None:
    """Send an alert and print how its fan-out went."""
    await asyncio.sleep(SETTLE_S)
    before = peak = bench.rss_mib()
    cpu_before = {name: bench.cpu_s(name) for name in ("ingestd", nats.NAME)}
    begun = time.perf_counter()
    await post(bench, alert_id)
    held, first = 0, 0.0
    while held < subscriptions:
        held = (await context.stream_info(DELIVER)).state.messages
        peak = max(peak, bench.rss_mib())
        first = first or (time.perf_counter() if held else 0.0)
        await asyncio.sleep(SAMPLE_S)
    seconds = time.perf_counter() - begun
    await asyncio.sleep(SETTLE_S)
    cpu = {name: 1e6 * (bench.cpu_s(name) - used) / subscriptions for name, used in cpu_before.items()}
    print(
        f"ingestd, {alert_id}: {subscriptions:,} envelopes in {seconds:.2f} s after the POST, "
        f"{subscriptions / seconds:,.0f}/s; first seen after {1000 * (first - begun):.0f} ms; "
        f"CPU an envelope {cpu['ingestd']:.0f} us, nats-server's {cpu[nats.NAME]:.0f} us; "
        f"RSS before {before:.1f}, peak {peak:.1f}, after {bench.rss_mib():.1f} MiB"
    )


async def post(bench: Bench, alert_id: str) -> None:
    """Send one signed alert."""
    path = "/v1/alerts"
    content = {"alert_id": alert_id, "title": "Disk almost full", "body": "db-3: 92 % of /var", "severity": "warning"}
    body = msgspec.json.encode(content)
    headers = signed_headers(bench.key_id, bench.secret.encode(), int(time.time()), path, body)
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{bench.ingestd_url}{path}", data=body, headers=headers) as answer,
    ):
        answer.raise_for_status()


async def bare_loop(client: Client, subject: str, payload: bytes, count: int) -> None:
    """Publish ready-made messages in atomic batches, several batches in flight, and print the rate."""
    begun, cpu_before = time.perf_counter(), time.process_time()
    room = asyncio.Semaphore(BARE_BATCHES_IN_FLIGHT)

    async def publish_batch(first: int, size: int) -> None:
        async with room:
            for number in range(1, size):
                await client.publish(subject, payload, headers=bare_headers(first, number))
            headers = bare_headers(first, size) | {"Nats-Batch-Commit": "1"}
            answer = await client.request(subject, payload, timeout=10, headers=headers)
            if b'"error"' in answer.data:
                raise RuntimeError(answer.data.decode())

    batches = [(first, min(MAX_BATCH, count - first)) for first in range(0, count, MAX_BATCH)]
    await asyncio.gather(*(publish_batch(*batch) for batch in batches))
    seconds = time.perf_counter() - begun
    cpu_us = 1e6 * (time.process_time() - cpu_before) / count
    print(
        f"bare loop: {count:,} messages of {len(payload)} bytes in {seconds:.2f} s, {count / seconds:,.0f}/s; "
        f"CPU a message {cpu_us:.0f} us"
    )


def bare_headers(first: int, number: int) -> dict[str, str]:
    """The headers of one message of a batch."""
    return {
        "Nats-Msg-Id": f"bare{first + number:028}",
        "traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
        "Nats-Batch-Id": f"bare-{first}",
        "Nats-Batch-Sequence": str(number),
    }


def main() -> None:
    """Run the scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000, help="how many (default: 100,000)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder)
        # TimescaleDB runs as another user where we are root.
        path.chmod(0o755)
        with running(path, arguments.subscriptions) as bench:
            asyncio.run(measure(bench, arguments.subscriptions))


if __name__ == "__main__":
    main()
