"""The embedded server over plain HTTP: what ClickHouse's HTTP interface promises, on the real engine."""

import gzip
import http.client
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
from backports import zstd

from tests.embedded_clickhouse import DEADLINE_S, EmbeddedServer

lz4 = import_module("lz4.frame")
ENDLESS = "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
    "lz4": lz4.compress,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": zstd.decompress,
    "lz4": lz4.decompress,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    # A folder that another program would take for a pattern.
    with EmbeddedServer(tmp_path_factory.mktemp("clickhouse") / "it's {a,b}*") as started:
        yield started


@pytest.fixture
def rows(server: EmbeddedServer) -> Iterator[None]:
    """Make the table `rows`."""
    server.ask("CREATE TABLE rows (id UInt64, name String) ENGINE = MergeTree ORDER BY id")
    yield
    server.ask("DROP TABLE rows SYNC")


def test_it_is_alive(server: EmbeddedServer) -> None:
    for path in ("ping", "replicas_status", ""):
        reply = server.get(path)
        assert (reply.status, reply.text) == (200, "Ok.\n")


def test_a_statement_stands_in_the_url_in_the_body_or_in_both(server: EmbeddedServer) -> None:
    assert server.get("?query=SELECT%201%2B1").text == "2\n"
    assert server.post("SELECT 'ü', 2").text == "ü\t2\n"
    assert server.post("number FROM numbers(2)", query="SELECT").text == "0\n1\n"
    assert server.post(gzip.compress(b"SELECT 3"), {"Content-Encoding": "gzip"}).text == "3\n"


def test_a_form_may_carry_the_parameters(server: EmbeddedServer) -> None:
    form = '--x\r\nContent-Disposition: form-data; name="query"\r\n\r\nSELECT {n:UInt8}\r\n'
    form += '--x\r\nContent-Disposition: form-data; name="param_n"\r\n\r\n7\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert server.post(form, headers).text == "7\n"
    table = form.replace('name="param_n"', 'name="t"; filename="t"')
    assert server.post(table, headers).status == 501


@pytest.mark.parametrize(
    ("kind", "value", "printed"),
    [
        ("String", r"it\'s\n\"q\"\\ \t ü; -- {x}", r"it\'s\n\"q\"\\ \t ü; -- {x}".replace(r"\"", '"')),
        ("String", "it's", r"it\'s"),
        ("String", "", ""),
        ("Nullable(String)", r"\N", r"\N"),
        ("Array(Nullable(Int32))", "[1,NULL,-3]", "[1,NULL,-3]"),
        ("Array(String)", r"['a\'b','c\\']", r"['a\'b','c\\']"),
        ("UInt64", "18446744073709551615", "18446744073709551615"),
        ("DateTime64(6,'UTC')", "2026-01-02 03:04:05.678901", "2026-01-02 03:04:05.678901"),
        ("UUID", "0192d3c4-0000-7000-8000-00000000abcd", "0192d3c4-0000-7000-8000-00000000abcd"),
        ("Map(String,UInt8)", "{'k':1}", "{'k':1}"),
        ("Tuple(UInt8,String)", "(1,'x')", "(1,'x')"),
        ("Bool", "true", "true"),
        ("Decimal(9,2)", "12.50", "12.5"),
    ],
)
def test_parameters_of_every_type_are_bound_by_the_engine(
    server: EmbeddedServer, kind: str, value: str, printed: str
) -> None:
    assert server.ask(f"SELECT {{p:{kind}}}", param_p=value) == printed


def test_parameters_of_a_hundred_kilobytes_fit_into_the_url(server: EmbeddedServer) -> None:
    numbers = f"[{','.join(map(str, range(10_000, 27_000)))}]"
    assert len(numbers) > 100_000
    assert server.ask("SELECT length({n:Array(UInt32)})", param_n=numbers) == "17000"


def test_bytes_that_are_no_utf8_pass(server: EmbeddedServer) -> None:
    assert server.post(b"SELECT hex('\xff\xfe'), hex({p:String})", param_p=b"a\xff").text == "FFFE\t61FF\n"
    assert server.post(b"", query=b"SELECT hex('\xff')").text == "FF\n"


@pytest.mark.parametrize(
    ("sql", "fields", "status", "code", "says"),
    [
        ("SELECT * FROM nope", {}, 404, 60, "(UNKNOWN_TABLE)"),
        ("SELECT * FROM nope.nope", {}, 404, 81, "(UNKNOWN_DATABASE)"),
        ("SELECT 1", {"database": "nope"}, 404, 81, "(UNKNOWN_DATABASE)"),
        ("SELECT nope", {}, 404, 47, "(UNKNOWN_IDENTIFIER)"),
        ("SELEC", {}, 400, 62, "(SYNTAX_ERROR)"),
        ("", {}, 400, 62, "Empty query"),
        ("SELECT 1; SELECT 2", {}, 400, 62, "Multi-statements are not allowed"),
        ("SELECT 1", {"nosuch": "1"}, 404, 115, "Unknown setting 'nosuch'"),
        ("SELECT 1 SETTINGS nosuch = 1", {}, 404, 115, "Unknown setting 'nosuch'"),
        ("SELECT 1", {"max_threads": "many"}, 400, 27, "many"),
        ("SELECT {p:UInt8}", {"param_p": "x"}, 500, 457, "(BAD_QUERY_PARAMETER)"),
        ("SELECT throwIf(number = 3) FROM numbers(9)", {}, 500, 395, "throwIf"),
        ("SELECT 1 FORMAT Nope", {}, 404, 73, "(UNKNOWN_FORMAT)"),
        ("INSERT INTO nope FORMAT TSV\n1", {}, 404, 60, "(UNKNOWN_TABLE)"),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", {}, 501, 48, "INTO OUTFILE"),
        ("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT TSV", {}, 501, 48, "FROM INFILE"),
        ("INSERT INTO t SELECT * FROM input('a Int8') FORMAT TSV", {}, 501, 48, "input()"),
        ("SELECT 1", {"compress": "1"}, 501, 48, "compress"),
        ("SELECT 1", {"query_id": "a\r\nX-Other: b"}, 400, 36, "query_id"),
        ("SELECT 1", {"default_format": "TSV\r\nX-Other: b"}, 404, 73, "(UNKNOWN_FORMAT)"),
        ("DROP TABLE t", {"database_atomic_wait_for_drop_and_detach_synchronously": "1"}, 501, 48, "synchronously"),
    ],
)
def test_errors_are_clickhouses_own(
    server: EmbeddedServer, sql: str, fields: dict[str, str], status: int, code: int, says: str
) -> None:
    reply = server.post(sql, **fields)
    assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (status, str(code))
    assert re.fullmatch(rf"Code: {code}\. DB::Exception: .*\([A-Z_]+\) \(version [\d.]+\)\n", reply.text, re.DOTALL)
    assert reply.text.count("DB::Exception") == 1
    assert says in reply.text


@pytest.mark.usefixtures("rows")
def test_a_get_writes_nothing(server: EmbeddedServer) -> None:
    for statement in ("INSERT+INTO+rows+SELECT+1,'x'", "DROP+TABLE+rows"):
        reply = server.get(f"?query={statement}")
        assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (500, "164")
    assert server.get("?query=SELECT+count()+FROM+rows&max_threads=1").text == "0\n"


def test_a_setting_holds_for_its_statement_only(server: EmbeddedServer) -> None:
    given: dict[str, str | int] = {"max_threads": 7, "max_block_size": 123, "log_comment": "mine"}
    given["insert_deduplication_token"] = "t"
    ask = "SELECT getSetting('max_threads'), getSetting('max_block_size'), getSetting('insert_deduplication_token'), "
    ask += "getSetting('log_comment') LIKE 'mine%', currentDatabase()"
    server.ask("CREATE DATABASE elsewhere")
    before = server.ask(ask)
    assert server.ask(ask, database="elsewhere", **given) == "7\t123\tt\t1\telsewhere"
    assert server.ask(ask) == before
    assert server.post("SELECT throwIf(1)", database="elsewhere", **given).status == 500
    assert server.ask(ask) == before
    assert server.ask("SET max_threads = 5") == ""
    server.ask("CREATE TEMPORARY TABLE mine (a UInt8)")
    assert server.ask(ask) == before
    assert server.post("SELECT * FROM mine").status == 404


def test_the_format_is_the_statements_or_the_requests(server: EmbeddedServer) -> None:
    cases = (
        (server.post("SELECT 1 AS a"), "TabSeparated", "1\n"),
        (server.post("SELECT 1 AS a", default_format="JSONEachRow"), "JSONEachRow", '{"a":1}\n'),
        (server.post("SELECT 1 AS a", {"X-ClickHouse-Format": "CSVWithNames"}), "CSVWithNames", '"a"\n1\n'),
        (server.post("SELECT 1 AS a FORMAT CSV -- so", default_format="JSON"), "CSV", "1\n"),
        (server.post("SELECT 1 AS a WHERE 0"), "TabSeparated", ""),
        (server.post("EXISTS TABLE nope"), "TabSeparated", "0\n"),
        (server.post("CREATE DATABASE IF NOT EXISTS x"), None, ""),
    )
    for reply, named, text in cases:
        assert (reply.headers.get("X-ClickHouse-Format"), reply.text) == (named, text)
    assert server.post("SELECT 1", query_id="mine").headers["X-ClickHouse-Query-Id"] == "mine"


@pytest.mark.parametrize("whole", [0, 1])
def test_a_large_answer_is_one_document_of_its_format(server: EmbeddedServer, whole: int) -> None:
    sql = "SELECT number AS n FROM numbers(200000)"
    answer = json.loads(server.ask(f"{sql} FORMAT JSON", wait_end_of_query=whole))
    assert [row["n"] for row in answer["data"]] == [*range(200_000)]
    lines = server.ask(f"{sql} FORMAT CSVWithNames", wait_end_of_query=whole).split("\n")
    assert lines == ['"n"', *map(str, range(200_000))]
    assert server.ask(sql, wait_end_of_query=whole).split("\n") == lines[1:]
    array = server.ask(sql, default_format="JSONEachRow", output_format_json_array_of_rows=1, wait_end_of_query=whole)
    assert len(json.loads(array)) == 200_000
    assert server.ask(f"{sql} WHERE n < 2 GROUP BY n WITH TOTALS ORDER BY n").split("\n") == ["0", "1", "", "0"]
    assert not [*(server.folder / "http_spool").iterdir()]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("coding", PACK)
def test_rows_come_in_any_format_and_coding(server: EmbeddedServer, coding: str) -> None:
    pack = PACK[coding]
    native = server.post("SELECT toUInt64(number) AS id, 'n\n' AS name FROM numbers(70000) FORMAT Native").body
    bodies = (
        ("INSERT INTO rows FORMAT Native", pack(native[: 1 << 19]) + pack(native[1 << 19 :]), 70_000),
        ("INSERT INTO rows (id, name) FORMAT JSONEachRow", pack(b'{"id": 1, "name": "j;\\n"}\n{"id": 2}'), 2),
        ("INSERT INTO rows SETTINGS max_threads = 1 FORMAT CSV", pack(b'3,"c,""c"""\n'), 1),
        ("INSERT INTO rows (name, id) VALUES", pack(b"(upper('v'), 2 + 2), ({p:String}, 5)"), 2),
        ("", pack(b"INSERT INTO rows FORMAT TSV\n0\t\n6\tt\\n\n"), 2),
    )
    for sql, body, written in bodies:
        reply = server.post(body, {"Content-Encoding": coding}, query=sql, param_p="bound")
        assert (reply.status, reply.text, reply.headers.get("X-ClickHouse-Format")) == (200, "", None)
        assert int(json.loads(reply.headers["X-ClickHouse-Summary"])["written_rows"]) == written
    assert server.ask("SELECT count(), sum(id) FROM rows WHERE name = 'n\\n'") == f"70000\t{69999 * 35000}"
    others = server.ask("SELECT name FROM rows WHERE name != 'n\\n' ORDER BY id FORMAT JSONCompactColumns")
    assert json.loads(others)[0] == ["", "j;\n", "", 'c,"c"', "V", "bound", "t\n"]


@pytest.mark.usefixtures("rows")
def test_an_insert_may_stand_whole_in_the_body_or_the_url(server: EmbeddedServer) -> None:
    server.ask("INSERT INTO rows VALUES (1, 'a;b -- c'), (2, 'FORMAT TSV')")
    assert server.post(query="INSERT INTO rows VALUES (3, 'u')").status == 200
    assert server.post("\t'w')", query="INSERT INTO rows VALUES (4,").status == 200
    server.ask("INSERT INTO rows SELECT id + 10, name FROM rows WHERE id = 1")
    assert server.ask("SELECT groupArray(id), any(name) FROM (SELECT * FROM rows ORDER BY id)").startswith(
        "[1,2,3,4,11]\ta;b -- c"
    )


@pytest.mark.usefixtures("rows")
def test_a_broken_body_adds_nothing(server: EmbeddedServer) -> None:
    sql = "INSERT INTO rows FORMAT TSV"
    rows = b"1\ta\n" * 100_000
    for coding in ("gzip", "zstd", "lz4"):
        for body in (PACK[coding](rows)[:-9], b"no such thing at all"):
            reply = server.post(body, {"Content-Encoding": coding}, query=sql)
            assert (reply.status, reply.headers["X-ClickHouse-Exception-Code"]) == (500, "271")
            assert coding in reply.text
    assert server.post(b"", {"Content-Encoding": "snappy"}, query=sql).status == 501
    assert server.post(b"1\ta\nx\tb\n", query=sql).status == 400
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE_S) as client:
        head = f"POST /?query={sql.replace(' ', '+')} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
        client.sendall(head.encode() + rows)
    assert server.ask("SELECT count() FROM rows") == "0"


@pytest.mark.parametrize("coding", UNPACK)
def test_an_answer_is_compressed_when_both_ends_say_so(server: EmbeddedServer, coding: str) -> None:
    sql, accepts = "SELECT number FROM numbers(100000)", {"Accept-Encoding": f"br;q=1.0, {coding};q=0.5"}
    plain = server.post(sql, accepts)
    assert "Content-Encoding" not in plain.headers
    packed = server.post(sql, accepts, enable_http_compression=1)
    assert packed.headers["Content-Encoding"] == coding
    assert len(packed.body) < len(plain.body)
    assert UNPACK[coding](packed.body) == plain.body


@pytest.mark.parametrize("form", ["Native", "JSON"])
def test_a_long_statement_holds_up_no_ping_and_ends_with_its_client(server: EmbeddedServer, form: str) -> None:
    with server.sent(f"{ENDLESS} FORMAT {form}"):
        # Whoever asks the engine now waits; the server itself doesn't.
        next_one = threading.Thread(target=server.ask, args=("SELECT 1",))
        next_one.start()
        for _ in range(20):
            began = time.monotonic()
            assert server.get("ping").text == "Ok.\n"
            assert time.monotonic() - began < 1
        assert next_one.is_alive()
    next_one.join(DEADLINE_S)
    assert not next_one.is_alive()


def test_a_client_that_leaves_in_the_middle_of_an_answer_frees_the_engine(server: EmbeddedServer) -> None:
    with server.reading("SELECT number FROM system.numbers") as answer:
        assert answer.readline() == b"0\n"
    assert server.ask("SELECT 1") == "1"


@pytest.mark.usefixtures("rows")
def test_who_reads_slowly_keeps_nobody_waiting(server: EmbeddedServer) -> None:
    server.ask("INSERT INTO rows SELECT number, repeat('x', 100) FROM numbers(400000)")
    with server.reading("SELECT * FROM rows ORDER BY id") as answer:
        first = answer.readline()
        # This would wait for whoever reads the table still.
        server.ask("TRUNCATE TABLE rows")
        assert server.ask("SELECT count() FROM rows") == "0"
        assert (first + answer.read()).count(b"x\n") == 400_000


@pytest.mark.parametrize("whole", [0, 1])
def test_memory_stays_flat_whatever_the_size_of_an_answer(server: EmbeddedServer, whole: int) -> None:
    sql = "SELECT number, toString(number), randomPrintableASCII(100) FROM numbers(1000000) FORMAT Native"
    before = server.peak_mib()
    with server.reading(sql, wait_end_of_query=whole, max_block_size=8192, max_threads=1) as answer:
        size = sum(map(len, iter(lambda: answer.read(1 << 20), b"")))
    assert size > 110_000_000
    assert server.peak_mib() - before < 60


def test_an_error_behind_the_first_rows_breaks_the_answer_off(server: EmbeddedServer) -> None:
    sql = "SELECT throwIf(number = 500000) FROM numbers(1000000) SETTINGS max_block_size = 10000"
    with server.reading(sql) as answer:
        assert answer.status == 200
        with pytest.raises(http.client.IncompleteRead) as broken:
            answer.read()
    tag = answer.headers["X-ClickHouse-Exception-Tag"]
    frame = broken.value.partial.partition(b"\r\n__exception__\r\n")[2].decode()
    found = re.fullmatch(rf"{tag}\r\n(Code: 395\. .*\n)(\d+) {tag}\r\n__exception__\r\n", frame, re.DOTALL)
    assert found is not None
    assert len(found[1]) == int(found[2])
    assert server.post(sql, wait_end_of_query=1).status == 500
