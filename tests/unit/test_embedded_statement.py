import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.archive.embedded.failure import QueryError
from announce.archive.embedded.statement import Command, Load, Read, find_load, parse

FILE = b" FROM INFILE '/f' COMPRESSION 'none' "


@pytest.mark.parametrize(
    ("text", "target", "rest"),
    [
        (b"INSERT INTO t FORMAT Native\n\nrows", b"INSERT INTO t ", b" FORMAT Native"),
        (b"insert into t values (1)", b"insert into t ", b" FORMAT Values"),
        (
            b"/* VALUES */ INSERT INTO TABLE d.`FORMAT x` (`values`) -- FORMAT A\nSETTINGS a = 'VALUES' FORMAT CSV 1",
            b"/* VALUES */ INSERT INTO TABLE d.`FORMAT x` (`values`) -- FORMAT A\n",
            b"SETTINGS a = 'VALUES'  FORMAT CSV",
        ),
        (b"INSERT INTO values VALUES (1)", b"INSERT INTO values ", b" FORMAT Values"),
        (b"INSERT INTO d.format FORMAT TSV", b"INSERT INTO d.format ", b" FORMAT TSV"),
        (b"INSERT INTO FUNCTION f('FORMAT a') VALUES 1", b"INSERT INTO FUNCTION f('FORMAT a') ", b" FORMAT Values"),
    ],
)
def test_an_insert_with_rows_takes_them_from_a_file(text: bytes, target: bytes, rest: bytes) -> None:
    load = find_load(text)
    assert load is not None
    assert load.text("/f") == target + FILE + rest


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"INSERT INTO t FORMAT TSV\na", b"a"),
        (b"INSERT INTO t FORMAT TSV \t\r\n\na", b"\na"),
        (b"INSERT INTO t FORMAT TSV a", b"a"),
        (b"INSERT INTO t FORMAT Native\n\x00'\"`$$/*", b"\x00'\"`$$/*"),
        (b"INSERT INTO t VALUES(1);", b"(1);"),
        (b"INSERT INTO t FORMAT TSV", b""),
    ],
)
def test_rows_begin_behind_the_clause_and_one_line_end(text: bytes, rows: bytes) -> None:
    load = find_load(text)
    assert isinstance(load, Load)
    assert text[load.data_at :] == rows


@pytest.mark.parametrize(
    "text",
    [
        b"SELECT 1 FORMAT CSV",
        b"INSERT INTO t SELECT 1 FORMAT CSV",
        b"INSERT INTO t WITH 1 AS a SELECT a",
        b"INSERT INTO t (a) (SELECT 1)",
        b"INSERT INTO t FROM INFILE '/f' FORMAT CSV",
        b"INSERT INTO t (a, b",
        b"INSERT INTO t FORMAT",
        b"INSERT",
        b"",
    ],
)
def test_what_brings_no_rows_is_no_load(text: bytes) -> None:
    assert find_load(text) is None


@pytest.mark.parametrize(
    ("text", "kind", "form"),
    [
        (b"SELECT 1", Read, None),
        (b"/* a */ select 'FORMAT x' Format JSON ; -- b", Read, "JSON"),
        (b"SELECT 1 FORMAT JSON SETTINGS max_threads = 1", Read, "JSON"),
        (b"WITH (SELECT 1 FORMAT CSV) AS a SELECT a", Read, None),
        (b"SELECT format FROM t", Read, None),
        (b"SELECT insert('a', 1, 1, 'b')", Read, None),
        (b"(SELECT 1) UNION ALL (SELECT 2)", Read, None),
        (b"FROM t SELECT a", Read, None),
        (b"SELECT $$ ; $$, $x$ FORMAT CSV; $x$", Read, None),
        (b"SELECT `;`, \";\", '\\';', '''; '", Read, None),
        (b"SHOW TABLES FORMAT TSV", Command, "TSV"),
        (b"WITH 1 AS a INSERT INTO t SELECT a", Command, None),
        (b"CREATE TABLE t (a String DEFAULT 'SELECT') ENGINE = Memory", Command, None),
    ],
)
def test_statements_are_told_apart(text: bytes, kind: type, form: str | None) -> None:
    statement = parse(text)
    assert (type(statement), statement.format) == (kind, form)


def test_an_outfile_clause_fits_in_before_the_format() -> None:
    for text, before in ((b"SELECT 1 FORMAT JSON;", b"SELECT 1 "), (b" SELECT 1 -- x\n;", b" SELECT 1")):
        read = parse(text)
        assert isinstance(read, Read)
        assert read.text[: read.output_at] == before


@pytest.mark.parametrize(
    ("text", "without"),
    [
        (b"DROP TABLE t SYNC", b"DROP TABLE t "),
        (b"drop table if exists d.view sync format Null", b"drop table if exists d.view  format Null"),
        (b"DROP DATABASE d NO DELAY", b"DROP DATABASE d "),
        (b"DROP TABLE sync", b"DROP TABLE sync"),
        (b"DROP TABLE IF EXISTS d.sync, sync SYNC", b"DROP TABLE IF EXISTS d.sync, sync "),
        (b"DETACH TABLE t SYNC", b"DETACH TABLE t SYNC"),
    ],
)
def test_a_drop_waits_for_nothing(text: bytes, without: bytes) -> None:
    assert parse(text).text == without


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "Empty query"),
        (b"; -- nothing\n", "Empty query"),
        (b"SELECT 1; SELECT 2", "Multi-statements"),
        (b"SELECT 1 INTO OUTFILE '/f'", "INTO OUTFILE"),
        (b"INSERT INTO t FROM INFILE '/f' FORMAT CSV", "FROM INFILE"),
        (b"INSERT INTO t SELECT * FROM input ('a Int8') FORMAT CSV", "input()"),
        (b"DROP TABLE t SETTINGS database_atomic_wait_for_drop_and_detach_synchronously = 1", "synchronously"),
    ],
)
def test_what_a_server_would_refuse_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(QueryError, match=says.replace("(", r"\(").replace(")", r"\)")):
        parse(text)


def test_a_semicolon_between_format_and_rows_is_refused() -> None:
    with pytest.raises(QueryError, match="';'"):
        find_load(b"INSERT INTO t FORMAT TSV; 1")


PIECES = [b"SELECT", b"INSERT INTO", b"t", b"FORMAT", b"VALUES", b"SETTINGS", b"DROP", b"SYNC", b"'", b'"', b"`", b"\\"]
PIECES += [b"$a$", b"/*", b"*/", b"--", b"\n", b"(", b")", b";", b".", b" ", b"\xff"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b" ".join))
def test_no_text_makes_it_stumble(text: bytes) -> None:
    load = None
    try:
        load = find_load(text)
        statement = parse(text)
    except QueryError:
        return
    assert text.startswith(statement.text) or b"SYNC" in text
    assert load is None or text.startswith(load.target + load.settings)
