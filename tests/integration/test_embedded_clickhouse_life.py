"""How the embedded server starts, stops, and is killed."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.embedded_clickhouse import COMMAND, DEADLINE_S, EmbeddedServer, Reply, wait_until

BLOCKS, BLOCK_ROWS = 20, 1_000
TABLE, WINDOW = "CREATE TABLE", "SETTINGS non_replicated_deduplication_window = 1000"
TABLES = [
    f"{TABLE} rows (id UInt64) ENGINE = MergeTree ORDER BY id {WINDOW}",
    f"{TABLE} sums (k UInt8, c UInt64) ENGINE = SummingMergeTree ORDER BY k {WINDOW}",
    # Each block of rows takes its time on the way through the view.
    "CREATE MATERIALIZED VIEW mv TO sums AS SELECT 1 AS k, count() AS c FROM rows WHERE sleep(0.1) = 0",
]
TOTALS = "SELECT (SELECT count() FROM rows), (SELECT sum(c) FROM sums)"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "data", BA_SHUTDOWN_GRACE_S="2") as started:
        yield started


def parts(server: EmbeddedServer) -> list[Path]:
    return [*server.folder.glob("store/*/*/all_*")]


def refused(folder: Path, port: int) -> tuple[int, list[str]]:
    command = [*COMMAND, "--path", str(folder), "--port", str(port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return ended.returncode, ended.stderr.splitlines()


ROWS = "".join(f"{number}\n" for number in range(BLOCKS * BLOCK_ROWS))
BLOCKWISE: dict[str, str | int] = {
    "query": "INSERT INTO rows FORMAT TSV",
    "insert_deduplication_token": "batch",
    "input_format_parallel_parsing": 0,
    "max_block_size": BLOCK_ROWS,
    "min_insert_block_size_rows": BLOCK_ROWS,
    "min_insert_block_size_bytes": 0,
}


def insert(server: EmbeddedServer) -> Reply:
    return server.post(ROWS, **BLOCKWISE)


def test_killed_in_the_middle_of_an_insert_it_loses_and_doubles_nothing(server: EmbeddedServer) -> None:
    for statement in TABLES:
        server.ask(statement)
    replies: list[Reply] = []

    def begin() -> None:
        with suppress(OSError, HTTPException):
            replies.append(insert(server))

    inserting = threading.Thread(target=begin)
    inserting.start()
    # Some blocks are in the table by now, and others are not.
    wait_until(lambda: len(parts(server)) > BLOCKS // 5)
    server.kill()
    inserting.join()
    assert not replies
    (server.folder / "http_spool" / "left").touch()

    server.start()
    assert not [*(server.folder / "http_spool").iterdir()]
    in_table, in_sums = map(int, server.ask(TOTALS).split())
    assert 0 < in_sums <= in_table < BLOCKS * BLOCK_ROWS
    for _ in range(2):
        assert insert(server).status == 200
        assert server.ask(TOTALS) == f"{BLOCKS * BLOCK_ROWS}\t{BLOCKS * BLOCK_ROWS}"


def test_an_insert_goes_on_when_its_client_leaves(server: EmbeddedServer) -> None:
    for statement in TABLES:
        server.ask(statement)
    with server.sent(ROWS, **BLOCKWISE):
        wait_until(lambda: len(parts(server)) > 2)
    assert server.ask(TOTALS) == f"{BLOCKS * BLOCK_ROWS}\t{BLOCKS * BLOCK_ROWS}"


def test_it_ends_when_what_runs_has_ended(server: EmbeddedServer) -> None:
    sql = "SELECT number, sleepEachRow(0.1) FROM numbers(10)"
    with server.reading(sql, max_block_size=1) as answer:
        first = answer.readline()
        assert server.stop() == 0
        assert (first + answer.read()).count(b"\n") == 10


def test_an_endless_answer_is_not_waited_for(server: EmbeddedServer) -> None:
    with server.reading("SELECT number FROM system.numbers WHERE number % 10000000 = 0") as answer:
        assert answer.readline() == b"0\n"
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 15


def test_an_endless_write_is_not_waited_for(server: EmbeddedServer) -> None:
    server.ask(TABLES[0])
    with server.sent("INSERT INTO rows SELECT number FROM system.numbers LIMIT 1000000000000"):
        wait_until(lambda: bool(parts(server)))
        # Not even when its client is gone.
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 15
    server.start()
    assert int(server.ask("SELECT count() FROM rows")) > 0


def test_a_second_one_is_refused_with_one_line(server: EmbeddedServer) -> None:
    status, lines = refused(server.folder, 0)
    assert (status, lines) == (1, [f"clickhouse: another process holds {server.folder}"])


def test_a_taken_port_is_refused_with_one_line(server: EmbeddedServer, tmp_path: Path) -> None:
    status, lines = refused(tmp_path / "other", server.port)
    expected = f"clickhouse: can't listen on 127.0.0.1:{server.port}: Address already in use"
    assert (status, lines[-1]) == (1, expected)
    assert len(lines) == 2, "the first says that it is starting"


def test_what_it_writes_is_little_and_holds_no_statement(server: EmbeddedServer) -> None:
    server.ask("SELECT 'secret'")
    assert server.post("SELECT secret").status == 404
    assert server.stop() == 0
    assert "secret" not in server.log
    assert [json.loads(line)["event"] for line in server.log.splitlines()] == ["starting", "listening", "stopped"]
