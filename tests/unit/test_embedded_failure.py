import pytest

from announce.archive.embedded.failure import QueryError, syntax_error

NESTED = (
    "Code: 27. DB::Exception: Code: 27. DB::ErrnoException: Cannot (x) parse: (in file/uri /proc/self/fd/9): While "
    "executing File: data for INSERT was parsed from file. (CANNOT_PARSE_TEXT) (version 26.5.1.1). (CANNOT_PARSE_TEXT)"
)


@pytest.mark.parametrize(
    ("message", "code", "status", "text"),
    [
        (
            "Code: 60. DB::Exception: Table default.a does not exist. (UNKNOWN_TABLE)",
            60,
            404,
            "Code: 60. DB::Exception: Table default.a does not exist. (UNKNOWN_TABLE)",
        ),
        (
            NESTED,
            27,
            400,
            "Code: 27. DB::Exception: Cannot (x) parse: While executing File. (CANNOT_PARSE_TEXT)",
        ),
        (
            "Code: 36. DB::Exception: Odd (A_NAME) inside. (BAD_ARGUMENTS)",
            36,
            400,
            "Code: 36. DB::Exception: Odd (A_NAME) inside. (BAD_ARGUMENTS)",
        ),
        ("Not at all like that", 1002, 500, "Code: 1002. DB::Exception: Not at all like that. (UNKNOWN_EXCEPTION)"),
    ],
)
def test_the_engines_errors_are_read(message: str, code: int, status: int, text: str) -> None:
    error = QueryError.of_engine(message)
    assert (error.code, error.status, str(error)) == (code, status, text)


def test_our_own_errors_look_the_same() -> None:
    error = syntax_error("Empty query")
    assert (error.code, error.status) == (62, 400)
    assert str(error) == "Code: 62. DB::Exception: Syntax error: Empty query. (SYNTAX_ERROR)"
    assert QueryError(48, "NOT_IMPLEMENTED", "no").status == 501
    assert QueryError(241, "MEMORY_LIMIT_EXCEEDED", "no").status == 500
