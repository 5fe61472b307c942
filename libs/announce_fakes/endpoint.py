import asyncio
from http import HTTPStatus
from typing import Generic

import msgspec
from aiohttp import web

from announce_fakes.contract import Call, Contract, Reply, S
from announce_fakes.journal import Journal
from announce_fakes.listener import response
from announce_fakes.rules import Rule, RuleBook
from announce_fakes.script import Script
from announce_fakes.tcp import send_reset

_CHUNK = b"x" * 65536
_PAGE = b"<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Error</h1></body></html>"


class Endpoint(Generic[S]):
    """One kind of call: the contract that answers it, the rules that spoil it, the journal of what came.

    Attributes:
        rules: The scripts in force.
        journal: What arrived.
    """

    def __init__(self, contract: Contract[S], journal: Journal | None = None) -> None:
        self._contract = contract
        self.rules: RuleBook[S] = RuleBook()
        self.journal = journal or Journal()

    def apply(self, script: S) -> None:
        """Puts a script in force.

        Raises:
            ScriptError: The provider has no such error.
        """
        if script.refuses:
            self._contract.refuse(script)
        if script.clear or script.reset_rules:
            self.rules.forget()
        if script.clear_received:
            self.journal.clear()
        if script.fail is not None:
            self.rules.forget(script.target)
        if script.fail:
            self.rules.add(msgspec.structs.replace(script, fail=None, status=500))
        elif script.acts:
            self.rules.add(script)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one call, as the provider would or as a rule says."""
        call = self._contract.read(request, await request.read())
        if isinstance(call, Reply):
            return response(call)
        rule = self.rules.take(call.target) if self.rules else None
        if rule is None:
            reply = call.answer()
            self.journal.record(call, request, reply.status)
            return response(reply)
        return await self._play(request, call, rule)

    async def _play(self, request: web.BaseRequest, call: Call, rule: Rule[S]) -> web.StreamResponse:
        script = rule.script
        reply = self._spoilt_reply(call, script)
        entry = self.journal.record(call, request, reply.status if reply else 0, script.shape)
        if script.delay_ms:
            await asyncio.sleep(script.delay_ms / 1000)
        if script.reset:
            await _reset(request)
        if script.hang:
            await rule.released.wait()
        if reply is None:
            reply = call.answer()
            self.journal.settle(entry, reply.status)
        return await _send(request, reply, script)

    def _spoilt_reply(self, call: Call, script: S) -> Reply | None:
        """The answer that a call gets under a script; None: it isn't processed."""
        if script.refuses:
            return _with_headers(self._contract.refuse(script), script)
        if script.status is None:
            return None if script.hang or script.reset else call.answer()
        reply = call.answer()
        return reply if reply.status >= HTTPStatus.BAD_REQUEST else msgspec.structs.replace(reply, status=script.status)


def _with_headers(reply: Reply, script: Script) -> Reply:
    headers = {"Retry-After": script.retry_after, "Location": script.location}
    given = {name: str(value) for name, value in headers.items() if value is not None}
    return msgspec.structs.replace(reply, headers={**reply.headers, **given})


async def _send(request: web.BaseRequest, reply: Reply, script: Script) -> web.StreamResponse:
    if script.html:
        return response(msgspec.structs.replace(reply, body=_PAGE, content_type="text/html"))
    if script.body_bytes is not None:
        return await _send_filler(request, reply, script.body_bytes)
    if script.drip is not None:
        return await _send_dripping(request, reply, script.drip)
    return response(reply)


async def _send_filler(request: web.BaseRequest, reply: Reply, size: int) -> web.StreamResponse:
    stream = await _begin(request, reply, size)
    for sent in range(0, size, len(_CHUNK)):
        await stream.write(_CHUNK[: size - sent])
    return stream


async def _send_dripping(request: web.BaseRequest, reply: Reply, bytes_per_s: float) -> web.StreamResponse:
    stream = await _begin(request, reply, len(reply.body))
    for byte in reply.body:
        await asyncio.sleep(1 / bytes_per_s)
        await stream.write(bytes((byte,)))
    return stream


async def _begin(request: web.BaseRequest, reply: Reply, size: int) -> web.StreamResponse:
    headers = {"Content-Type": reply.content_type, **reply.headers, "Content-Length": str(size)}
    stream = web.StreamResponse(status=reply.status, headers=headers)
    await stream.prepare(request)
    return stream


async def _reset(request: web.BaseRequest) -> None:
    """Breaks the connection with a RST; doesn't return, since the server cancels the handler then."""
    if request.transport is not None:
        send_reset(request.transport)
    await asyncio.get_running_loop().create_future()
