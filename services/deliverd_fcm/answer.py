"""What FCM answers: `{"name": …}`, or an error read by its FcmError code, then its status, then HTTP's."""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from announce.model.channel import HttpReply
from announce.model.outcome import (
    ChannelFault,
    CredentialRefused,
    Delivered,
    Failure,
    Outcome,
    Rejected,
    TargetGone,
    Transient,
)
from announce.model.reason import Reason
from announce.model.replies import read_json, retry_after_s, status_outcome, with_words

QUOTA_WAIT_S: Final = 60.0
"""FCM's own default for a 429 without Retry-After: its quotas are counted by the minute."""

_FCM_ERROR: Final = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
_TOKEN_WORDS: Final = "registration token"  # noqa: S105 - as FCM calls an address


class _Success(Struct, frozen=True):
    name: Annotated[str, Meta(pattern=r"^projects/[^/\s]+/messages/[!-~]+$", max_length=512)]


class _Violation(Struct, frozen=True):
    field: str = ""


class _Detail(Struct, frozen=True):
    type: str = field(name="@type", default="")
    code: str = field(name="errorCode", default="")
    violations: list[_Violation] = field(name="fieldViolations", default_factory=list)


class _Error(Struct, frozen=True):
    message: str = ""
    status: str = ""
    details: list[_Detail] = []

    @property
    def fcm_code(self) -> str:
        """FCM's own code, or nothing: other Google layers answer without one."""
        return next((detail.code for detail in self.details if detail.type == _FCM_ERROR), "")

    @property
    def fields(self) -> list[str]:
        """The fields that are said to be wrong."""
        return [violation.field for detail in self.details for violation in detail.violations]

    @property
    def blames_token(self) -> bool:
        """Whether it is the address that is invalid. Where fields are named, it is what we wrote in them."""
        return not self.fields and _TOKEN_WORDS in self.message.lower()


class _Refusal(Struct, frozen=True):
    error: _Error


_success: Final = msgspec.json.Decoder(_Success)
_refusal: Final = msgspec.json.Decoder(_Refusal)

_Kind = type[Transient] | type[Rejected] | type[TargetGone] | type[CredentialRefused] | type[ChannelFault]

_FCM_CODES: Final[Mapping[str, tuple[_Kind, Reason]]] = {
    "INVALID_ARGUMENT": (Rejected, Reason.INVALID_REQUEST),
    "UNREGISTERED": (TargetGone, Reason.TARGET_GONE),
    # Not TargetGone: with the wrong credentials every token would look like this.
    "SENDER_ID_MISMATCH": (Rejected, Reason.SENDER_MISMATCH),
    # The key that FCM holds for Apple or for web push, not the one that we call FCM with: a fresh token is no help.
    "THIRD_PARTY_AUTH_ERROR": (ChannelFault, Reason.MISCONFIGURED),
    "APNS_AUTH_ERROR": (ChannelFault, Reason.MISCONFIGURED),
    "QUOTA_EXCEEDED": (Transient, Reason.RATE_LIMITED),
}
_OTHER_FCM_CODE: Final[tuple[_Kind, Reason]] = (Transient, Reason.PROVIDER_ERROR)

_STATUSES: Final[Mapping[str, tuple[_Kind, Reason]]] = {
    "INVALID_ARGUMENT": (Rejected, Reason.INVALID_REQUEST),
    "UNAUTHENTICATED": (CredentialRefused, Reason.CREDENTIALS),
    "PERMISSION_DENIED": (ChannelFault, Reason.MISCONFIGURED),
    "NOT_FOUND": (ChannelFault, Reason.MISCONFIGURED),
    "RESOURCE_EXHAUSTED": (Transient, Reason.RATE_LIMITED),
    "ABORTED": (Transient, Reason.PROVIDER_ERROR),
    "CANCELLED": (Transient, Reason.PROVIDER_ERROR),
    "DEADLINE_EXCEEDED": (Transient, Reason.PROVIDER_ERROR),
    "INTERNAL": (Transient, Reason.PROVIDER_ERROR),
    "UNAVAILABLE": (Transient, Reason.PROVIDER_ERROR),
    "UNKNOWN": (Transient, Reason.PROVIDER_ERROR),
}


def read_answer(reply: HttpReply) -> Outcome:
    """Say what an answer of FCM, or of whoever stands in its place, means."""
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        success = read_json(_success, reply)
        return Delivered(success.name, reply.status) if success else status_outcome(reply.status, reply.headers)
    if reply.status < HTTPStatus.BAD_REQUEST:
        # FCM never answers so, whatever the body says.
        return status_outcome(reply.status, reply.headers)
    failure = _read_failure(reply)
    if failure.reason is Reason.RATE_LIMITED and isinstance(failure, Transient) and failure.retry_after_s is None:
        return replace(failure, retry_after_s=QUOTA_WAIT_S)
    return failure


def _read_failure(reply: HttpReply) -> Failure:
    refusal = read_json(_refusal, reply)
    error = refusal.error if refusal else _Error()
    words = (error.fcm_code or error.status, ", ".join(error.fields), error.message)
    meaning = _meaning(error, reply.status)
    if meaning is None:
        return with_words(status_outcome(reply.status, reply.headers), *words)
    kind, reason = meaning
    failure = kind(reason=reason, detail=f"HTTP {reply.status}", status_code=reply.status)
    if isinstance(failure, Transient):
        failure = replace(failure, retry_after_s=retry_after_s(reply.headers))
    return with_words(failure, *words)


def _meaning(error: _Error, http_status: int) -> tuple[_Kind, Reason] | None:
    """Find what an error means, or None when only HTTP's status is left to go by."""
    code = error.fcm_code
    if code == "INVALID_ARGUMENT" and error.blames_token:
        return TargetGone, Reason.TARGET_GONE
    if code:
        return _FCM_CODES.get(code, _OTHER_FCM_CODE)
    if http_status == HTTPStatus.UNAUTHORIZED:
        return _STATUSES["UNAUTHENTICATED"]
    return _STATUSES.get(error.status)
