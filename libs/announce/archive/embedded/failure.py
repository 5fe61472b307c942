"""ClickHouse's errors: their codes, their texts, and the HTTP status that each is answered with."""

import re
from typing import Final

# The table of a ClickHouse server (src/Server/HTTP/exceptionCodeToHTTPStatus.cpp), by the names its messages end with.
_NAMES_BY_STATUS: Final = {
    400: """
        BAD_ARGUMENTS CANNOT_COMPILE_REGEXP CANNOT_PARSE_DATE CANNOT_PARSE_DATETIME CANNOT_PARSE_ESCAPE_SEQUENCE
        CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING CANNOT_PARSE_INPUT_ASSERTION_FAILED CANNOT_PARSE_IPV4 CANNOT_PARSE_IPV6
        CANNOT_PARSE_NUMBER CANNOT_PARSE_QUOTED_STRING CANNOT_PARSE_TEXT CANNOT_PARSE_UUID DUPLICATE_COLUMN
        ILLEGAL_COLUMN INCORRECT_DATA SYNTAX_ERROR THERE_IS_NO_COLUMN TOO_BIG_AST TOO_DEEP_AST TYPE_MISMATCH
        UNEXPECTED_AST_STRUCTURE UNKNOWN_ELEMENT_IN_AST UNKNOWN_TYPE_OF_AST_NODE VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
    """,
    401: "REQUIRED_PASSWORD",
    403: "ACCESS_DENIED AUTHENTICATION_FAILED SET_NON_GRANTED_ROLE UNKNOWN_USER WRONG_PASSWORD",
    404: """
        UNKNOWN_AGGREGATE_FUNCTION UNKNOWN_DATABASE UNKNOWN_DATABASE_ENGINE UNKNOWN_DIRECTION_OF_SORTING UNKNOWN_FORMAT
        UNKNOWN_FUNCTION UNKNOWN_IDENTIFIER UNKNOWN_ROLE UNKNOWN_SETTING UNKNOWN_STORAGE UNKNOWN_TABLE UNKNOWN_TYPE
        UNKNOWN_TYPE_OF_QUERY
    """,
    408: "TIMEOUT_EXCEEDED",
    411: "HTTP_LENGTH_REQUIRED",
    413: "QUERY_IS_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    501: "NOT_IMPLEMENTED",
    503: "CANNOT_OPEN_FILE CANNOT_SCHEDULE_TASK SOCKET_TIMEOUT",
}
_STATUS_BY_NAME: Final = {name: status for status, names in _NAMES_BY_STATUS.items() for name in names.split()}

# An error that passes through several layers of the engine gains a beginning and an end from each.
_BEGINNINGS: Final = re.compile(r"(?:Code: (?P<code>\d+)\. DB::\w*Exception: )+")
_ENDINGS: Final = re.compile(r"(?:\.? \((?P<name>[A-Z][A-Z0-9_]+)\)(?: \(version [^)]*\))?\.?)+\s*$")
# Where this program keeps the rows of an insert for a moment is nothing to the client.
_SPOOL: Final = re.compile(r": \(in file/uri /proc/self/fd/\d+\)|: data for INSERT was parsed from file$")


class QueryError(Exception):
    """A statement failed, or a request is refused, with one of ClickHouse's errors.

    Args:
        code: ClickHouse's number of the error.
        name: its name, such as `UNKNOWN_TABLE`.
        reason: what is wrong, in ClickHouse's words or in ours.
    """

    def __init__(self, code: int, name: str, reason: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {reason.removesuffix('.')}. ({name})")
        self.code = code
        self.status = _STATUS_BY_NAME.get(name, 500)

    @classmethod
    def of_engine(cls, message: str) -> "QueryError":
        """Read the text of an exception that the engine raised."""
        beginnings = _BEGINNINGS.match(message)
        endings = _ENDINGS.search(message)
        if beginnings is None or endings is None:
            return cls(1002, "UNKNOWN_EXCEPTION", message)
        reason = _SPOOL.sub("", message[beginnings.end() : endings.start()])
        return cls(int(beginnings["code"]), endings["name"], reason)


def syntax_error(reason: str) -> QueryError:
    """Refuse a statement that can't be read."""
    return QueryError(62, "SYNTAX_ERROR", f"Syntax error: {reason}")


def not_implemented(what: str) -> QueryError:
    """Refuse what a ClickHouse server can do and this program can't."""
    return QueryError(48, "NOT_IMPLEMENTED", f"{what} is not supported by the embedded server")
