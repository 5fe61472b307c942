"""What the Bot API answers: `{"ok": true, "result": …}`, or an error by code, description and parameters."""

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from announce.model.channel import HttpReply
from announce.model.outcome import (
    Delivered,
    Failure,
    MarkupRefused,
    Outcome,
    Rejected,
    TargetGone,
    TargetMoved,
    Transient,
)
from announce.model.reason import Reason
from announce.model.replies import MAX_RETRY_AFTER_S, read_json, status_outcome, with_words

_GONE: Final = (
    "bot was blocked by the user",
    "user is deactivated",
    "bot was kicked",
    "bot is not a member",
    "group chat was deleted",
    "chat not found",
)
_ERROR_CODES: Final = range(400, 600)
_MARKUP: Final = "can't parse entities"
_INVALID: Final = ("message is too long", "message text is empty", "text must be non-empty")


class _Message(Struct, frozen=True):
    message_id: int


class _Success(Struct, frozen=True):
    ok: bool
    result: _Message


class _Parameters(Struct, frozen=True):
    retry_after: Annotated[float, Meta(ge=0)] | None = None
    migrate_to_chat_id: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None


class _Refusal(Struct, frozen=True):
    ok: bool
    error_code: int
    description: str = ""
    parameters: _Parameters = _Parameters()


_success: Final = msgspec.json.Decoder(_Success)
_refusal: Final = msgspec.json.Decoder(_Refusal)


def read_answer(reply: HttpReply) -> Outcome:
    """Say what an answer of the Bot API, or of whoever stands in its place, means."""
    succeeded = HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES
    success = read_json(_success, reply) if succeeded else None
    if success and success.ok:
        return Delivered(str(success.result.message_id), reply.status)
    # What is neither a success nor an error is none of the Bot API's answers, whatever the body says.
    refusal = read_json(_refusal, reply) if succeeded or reply.status >= HTTPStatus.BAD_REQUEST else None
    if refusal is None or refusal.ok:
        return status_outcome(reply.status, reply.headers)
    return with_words(_read_refusal(refusal, reply), refusal.description)


def _read_refusal(refusal: _Refusal, reply: HttpReply) -> Failure:
    code = refusal.error_code if refusal.error_code in _ERROR_CODES else reply.status
    if code in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN):
        return _read_rejection(code, refusal, reply.status)
    failure = status_outcome(code, reply.headers)
    if isinstance(failure, Transient) and refusal.parameters.retry_after is not None:
        failure = replace(failure, retry_after_s=min(refusal.parameters.retry_after, MAX_RETRY_AFTER_S))
    return replace(failure, status_code=reply.status)


def _read_rejection(code: int, refusal: _Refusal, status: int) -> Failure:
    """Read a refusal of this one message."""
    said, detail, moved_to = refusal.description.lower(), f"HTTP {status}", refusal.parameters.migrate_to_chat_id
    if code == HTTPStatus.BAD_REQUEST and moved_to is not None:
        changed = {"chat_id": moved_to}
        return TargetMoved(reason=Reason.TARGET_MOVED, detail=detail, status_code=status, moved_to=changed)
    if code == HTTPStatus.BAD_REQUEST and _MARKUP in said:
        return MarkupRefused(reason=Reason.INVALID_REQUEST, detail=detail, status_code=status)
    if any(phrase in said for phrase in _GONE):
        return TargetGone(reason=Reason.TARGET_GONE, detail=detail, status_code=status)
    reason = Reason.INVALID_REQUEST if any(phrase in said for phrase in _INVALID) else Reason.REJECTED
    return Rejected(reason=reason, detail=detail, status_code=status)
