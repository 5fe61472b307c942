"""The embedded server with clickhouse-connect's own async client, which must find nothing amiss."""

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import clickhouse_connect
import pytest
from aiohttp import ClientPayloadError
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.common import StreamContext
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError
from pydantic import SecretStr

from announce.archive.client import connected
from announce.archive.settings import ArchiveSettings
from tests.embedded_clickhouse import EmbeddedServer

USER, PASSWORD = "someone", "p:/@ß"
ENVIRONMENT = {"BA_CLICKHOUSE_EMBEDDED_USER": USER, "BA_CLICKHOUSE_EMBEDDED_PASSWORD": PASSWORD}
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
COLUMNS = ["id", "at", "company", "body", "number", "tags"]
ROWS = [
    (uuid.UUID(int=n), AT + timedelta(seconds=n), f"c{n % 7}", f"it's\n\\{n}\x00ü", n if n % 3 else None, ["a", "'"])
    for n in range(5_000)
]
TABLE = """
    CREATE TABLE archive.rows (
        id UUID, at DateTime64(6, 'UTC'), company LowCardinality(String), body String, number Nullable(Int32),
        tags Array(String)
    ) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY (company, at, id)
    SETTINGS non_replicated_deduplication_window = 1000
"""
DAILY = """
    CREATE TABLE archive.daily (company LowCardinality(String), day Date, total UInt64)
    ENGINE = SummingMergeTree ORDER BY (company, day) SETTINGS non_replicated_deduplication_window = 1000
"""
VIEW = """
    CREATE MATERIALIZED VIEW archive.daily_mv TO archive.daily AS
    SELECT company, toDate(at) AS day, count() AS total FROM archive.rows GROUP BY company, day
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("clickhouse") / "data", **ENVIRONMENT) as started:
        yield started


@pytest.fixture
def settings(server: EmbeddedServer) -> ArchiveSettings:
    dsn = f"http://someone:p%3A%2F%40%C3%9F@127.0.0.1:{server.port}/archive"
    return ArchiveSettings(clickhouse_dsn=SecretStr(dsn))


@pytest.fixture
async def client(settings: ArchiveSettings) -> AsyncIterator[AsyncClient]:
    """A client of the database `archive`, which is new."""
    async with connected(settings) as opened:
        await opened.command("DROP DATABASE IF EXISTS archive SYNC", use_database=False)
        await opened.command("CREATE DATABASE archive", use_database=False)
        yield opened


async def count(client: AsyncClient, of: str) -> object:
    return await client.command(f"SELECT {of}")


async def test_what_is_inserted_is_what_is_read(client: AsyncClient) -> None:
    await client.command(TABLE)
    summary = await client.insert("rows", ROWS, column_names=COLUMNS)
    assert summary.written_rows == len(ROWS)
    answer = await client.query("SELECT * FROM rows ORDER BY id")
    assert answer.result_rows == ROWS
    assert answer.column_names == tuple(COLUMNS)
    assert (await client.query("SELECT * FROM rows WHERE company = 'none'")).result_rows == []
    assert (await client.query("SELECT * FROM rows LIMIT 0")).column_names == tuple(COLUMNS)


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip"])
async def test_either_way_may_be_compressed(
    server: EmbeddedServer, client: AsyncClient, compress: Literal[False] | str
) -> None:
    await client.command(TABLE)
    packed = await clickhouse_connect.get_async_client(
        host="127.0.0.1", port=server.port, username=USER, password=PASSWORD, database="archive", compress=compress
    )
    try:
        await packed.insert("rows", ROWS, column_names=COLUMNS)
        async with await packed.query_row_block_stream("SELECT id FROM rows ORDER BY id") as blocks:
            assert [row[0] async for block in blocks for row in block] == [row[0] for row in ROWS]
    finally:
        await packed.close()


async def test_parameters_are_bound(client: AsyncClient) -> None:
    given = {"text": 'it\'s\n"q"\\ \t ü', "list": ["'", "\\", "\n"], "at": AT, "none": None, "id": uuid.UUID(int=7)}
    sql = "SELECT {text:String}, {list:Array(String)}, {at:DateTime64(6,'UTC')}, {none:Nullable(Int8)}, {id:UUID}"
    assert (await client.query(sql, parameters=given)).result_rows == [tuple(given.values())]
    # So many go into a form.
    many = [uuid.UUID(int=n) for n in range(5_000)]
    answer = await client.query("SELECT length({ids:Array(UUID)})", parameters={"ids": many})
    assert answer.result_rows == [(5_000,)]


async def test_a_repeated_insert_adds_nothing_anywhere(client: AsyncClient) -> None:
    for statement in (TABLE, DAILY, VIEW):
        await client.command(statement)
    for token, expected in (("batch-1", 5_000), ("batch-1", 5_000), ("batch-2", 10_000), ("batch-2", 10_000)):
        deduplication = {"insert_deduplication_token": token, "deduplicate_blocks_in_dependent_materialized_views": 1}
        # Several blocks, as a large batch has.
        blocks = {"min_insert_block_size_rows": 1_000, "max_block_size": 1_000}
        await client.insert("rows", ROWS, column_names=COLUMNS, settings={**deduplication, **blocks})
        assert await count(client, "count() FROM rows") == expected
        assert await count(client, "sum(total) FROM daily") == expected


async def test_a_setting_does_not_leak_into_the_next_statement(client: AsyncClient) -> None:
    ask = "SELECT getSetting('max_block_size'), getSetting('insert_deduplication_token')"
    before = (await client.query(ask)).result_rows
    given = {"max_block_size": 777, "insert_deduplication_token": "x"}
    assert (await client.query(ask, settings=given)).result_rows == [(777, "x")]
    assert (await client.query(ask)).result_rows == before


async def test_errors_have_their_code_and_name(client: AsyncClient) -> None:
    for sql, code, name in (
        ("SELECT * FROM nope", 60, "UNKNOWN_TABLE"),
        ("SELEC 1", 62, "SYNTAX_ERROR"),
        ("SELECT throwIf(number = 900000) FROM numbers(1000000)", 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
    ):
        with pytest.raises(DatabaseError) as raised:
            await client.query(sql)
        assert (raised.value.code, raised.value.name) == (code, name)
    with pytest.raises(DatabaseError, match="nosuch"):
        await client.query("SELECT 1", settings={"nosuch": 1})


async def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(client: AsyncClient) -> None:
    sql = "SELECT throwIf(number = 900000) FROM numbers(1000000)"
    stream = await client.query_row_block_stream(sql, settings={"max_block_size": 5_000})
    # As with a server, the connection breaks off behind the error's text, and the client, whose HTTP library may drop
    # what it holds unread then, doesn't always get to see it.
    with pytest.raises((StreamFailureError, ClientPayloadError), match=r"throwIf|not completed|closed by server"):
        await drain(stream)


async def drain(stream: StreamContext) -> None:
    async with stream as blocks:
        async for _ in blocks:
            pass


async def test_other_formats_pass_raw(client: AsyncClient) -> None:
    await client.command(TABLE)
    line = b'{"company":"a","body":"1"}\n'
    await client.raw_insert("rows", column_names=["company", "body"], insert_block=line * 2, fmt="JSONEachRow")
    assert await client.raw_query("SELECT company, body FROM rows", fmt="JSONEachRow") == line * 2
    assert (await client.query_arrow("SELECT company FROM rows")).num_rows == 2


@pytest.mark.parametrize(("user", "password"), [("default", ""), (USER, ""), (USER, "x"), ("default", PASSWORD)])
async def test_wrong_credentials_are_refused(server: EmbeddedServer, user: str, password: str) -> None:
    with pytest.raises(DatabaseError, match="Authentication failed") as refused:
        await clickhouse_connect.get_async_client(host="127.0.0.1", port=server.port, username=user, password=password)
    assert refused.value.code == 516


def test_credentials_may_come_in_the_url_or_in_headers(server: EmbeddedServer) -> None:
    assert server.post("SELECT 1").status == 403
    assert server.post("SELECT 1", {"Authorization": "Bearer x"}).status == 403
    assert server.post("SELECT 1", user=USER, password=PASSWORD).text == "1\n"
    headers = {"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD.encode().decode("latin-1")}
    assert server.post("SELECT 1", headers).text == "1\n"
    assert server.get("ping").text == "Ok.\n"
