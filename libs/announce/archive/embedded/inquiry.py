"""What an HTTP request asks for besides its SQL: settings, parameters, database, format."""

import uuid
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from announce.archive.embedded.connection import Scope
from announce.archive.embedded.failure import QueryError, not_implemented
from announce.archive.embedded.statement import WAIT_SETTING

# These parameters of ClickHouse's HTTP interface are no settings. Sessions don't exist here: each request has its own.
_NO_SETTINGS: Final = {
    *("query", "query_id", "database", "default_format", "user", "password", "quota_key", "stacktrace"),
    *("buffer_size", "wait_end_of_query", "client_protocol_version"),
    *("session_id", "session_timeout", "session_check"),
}
_UNSUPPORTED: Final = ("compress", "decompress", "role", WAIT_SETTING)
_PARAMETER: Final = "param_"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a request asks for.

    Attributes:
        text: the SQL in the URL or the form.
        scope: what holds for the statement.
        output: the format of an answer whose statement names none.
        query_id: the client's name for the statement, or a made-up one.
        whole: the answer is sent when it is complete and not before.
        compressed: the answer may be compressed.
    """

    text: bytes
    scope: Scope
    output: str
    query_id: str
    whole: bool
    compressed: bool


def url_fields(request: web.Request) -> dict[str, str]:
    """Read the fields in the URL; bytes that aren't UTF-8 are kept as surrogates."""
    encoded = request.raw_path.partition("?")[2]
    return dict(parse_qsl(encoded, keep_blank_values=True, errors="surrogateescape"))


async def form_fields(request: web.Request) -> dict[str, str]:
    """Read the fields of a multipart form: clients put long parameters there.

    Raises:
        QueryError: the form is too large or holds a table.
    """
    try:
        form = await request.post()
    except web.HTTPRequestEntityTooLarge as error:
        raise QueryError(78, "QUERY_IS_TOO_LARGE", "The form is too large") from error
    except ValueError as error:
        raise QueryError(36, "BAD_ARGUMENTS", "The form can't be read") from error
    fields = {}
    for name, value in form.items():
        if not isinstance(value, str):
            raise not_implemented("External data")
        fields[name] = value
    return fields


def inquire(request: web.Request, fields: dict[str, str]) -> Inquiry:
    """Sort a request's fields into what they mean.

    Raises:
        QueryError: it asks for what this server can't do.
    """
    for name in _UNSUPPORTED:
        if fields.get(name, "0") not in {"", "0"}:
            raise not_implemented(f"The URL parameter {name}")
    settings = {
        name: value
        for name, value in fields.items()
        if name not in _NO_SETTINGS and name not in _UNSUPPORTED and not name.startswith(_PARAMETER)
    }
    if request.method == "GET":
        # As in a server: a GET writes nothing. With 2, its other settings may still be set.
        settings.setdefault("readonly", "2")
    scope = Scope(
        database=request.headers.get("X-ClickHouse-Database") or fields.get("database", ""),
        settings=settings,
        parameters={
            name.removeprefix(_PARAMETER): _escaped(value)
            for name, value in fields.items()
            if name.startswith(_PARAMETER)
        },
        mark=settings.get("log_comment") or uuid.uuid4().hex,
    )
    output = request.headers.get("X-ClickHouse-Format") or fields.get("default_format") or "TabSeparated"
    query_id = fields.get("query_id") or str(uuid.uuid4())
    # Both come back in headers.
    if not (output.isascii() and output.isalnum()):
        raise QueryError(73, "UNKNOWN_FORMAT", "Unknown format: a name has letters and digits only")
    if not (query_id.isascii() and query_id.isprintable()):
        raise QueryError(36, "BAD_ARGUMENTS", "query_id must be printable ASCII")
    return Inquiry(
        text=fields.get("query", "").encode(errors="surrogateescape"),
        scope=scope,
        output=output,
        query_id=query_id,
        whole=fields.get("wait_end_of_query", "0") not in {"", "0"},
        compressed=fields.get("enable_http_compression", "0") not in {"", "0"},
    )


def _escaped(value: str) -> str:
    r"""Write bytes that aren't UTF-8 as `\xFF`, which is what ClickHouse's escaped form has for them."""
    return value.encode(errors="surrogateescape").decode(errors="backslashreplace")
