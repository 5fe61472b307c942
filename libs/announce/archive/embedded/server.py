from contextlib import aclosing
from pathlib import Path

from aiohttp import hdrs, web

from announce.archive.embedded import credentials, encoding
from announce.archive.embedded.answer import pieces
from announce.archive.embedded.engine import Call, Engine
from announce.archive.embedded.failure import QueryError
from announce.archive.embedded.inquiry import Inquiry, form_fields, inquire, url_fields
from announce.archive.embedded.intake import MAX_STATEMENT_BYTES, Insert, receive
from announce.archive.embedded.reply import Stream, format_headers, refuse, summary_headers
from announce.archive.embedded.settings import CredentialSettings
from announce.archive.embedded.statement import Command, Read


class Server:
    """ClickHouse's HTTP interface in front of the engine.

    Args:
        engine: what executes the statements; it is open.
        spool: a folder for rows and answers on their way.
        allowed: who may use it.
    """

    def __init__(self, engine: Engine, spool: Path, allowed: CredentialSettings) -> None:
        self._engine = engine
        self._spool = spool
        self._allowed = allowed

    def application(self) -> web.Application:
        """Build the application."""
        app = web.Application(client_max_size=MAX_STATEMENT_BYTES)
        app.router.add_get("/ping", _alive)
        app.router.add_get("/replicas_status", _alive)
        app.router.add_get("/", self._statement)
        app.router.add_post("/", self._statement)
        return app

    async def _statement(self, request: web.Request) -> web.StreamResponse:
        fields = url_fields(request)
        if request.method == "GET" and "query" not in fields:
            return await _alive(request)
        headers = {"X-ClickHouse-Timezone": self._engine.timezone}
        try:
            credentials.check(request, fields, self._allowed)
            if request.content_type == "multipart/form-data":
                fields |= await form_fields(request)
            inquiry = inquire(request, fields)
            headers["X-ClickHouse-Query-Id"] = inquiry.query_id
            return await self._execute(request, inquiry, headers)
        except QueryError as error:
            return refuse(error, self._engine.version, headers)

    async def _execute(self, request: web.Request, inquiry: Inquiry, headers: dict[str, str]) -> web.StreamResponse:
        statement = await receive(request, inquiry.text, self._spool)
        call = Call(self._engine, inquiry.scope, self._spool)
        match statement:
            case Insert(text, rows):
                # The file of rows stays open until the engine is through with it, even if nobody waits for that any
                # more: the next file would get its number, and the engine would take that one's rows.
                await call.run(text, inquiry.output, killable=False, done=rows.close)
                return web.Response(headers={**headers, **summary_headers(call.progress)})
            case Command(text, named, answers):
                body = await call.run(text, inquiry.output, killable=answers)
                form = format_headers(named or inquiry.output) if body or answers else {}
                return web.Response(body=body, headers={**headers, **form, **summary_headers(call.progress)})
            case Read():
                headers = {**headers, **format_headers(statement.format or inquiry.output)}
                return await self._stream(request, inquiry, headers, call, statement)

    async def _stream(
        self, request: web.Request, inquiry: Inquiry, headers: dict[str, str], call: Call, read: Read
    ) -> web.StreamResponse:
        accepted = request.headers.get(hdrs.ACCEPT_ENCODING, "") if inquiry.compressed else ""
        async with aclosing(pieces(call, read, inquiry)) as answer:
            # With the first piece it is known whether the statement works at all, and an error gets its status.
            first = await anext(answer, b"")
            headers = {**headers, **summary_headers(call.progress)}
            stream = Stream(request, headers, encoding.choose(accepted), self._engine.version)
            return await stream.send(first, answer)


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")
