"""What a reply says whoever the provider is: failed calls, HTTP statuses, Retry-After, and words fit to be quoted."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from announce.model.channel import HttpReply, TransportFailure, TransportFault
from announce.model.outcome import ChannelFault, Failure, Rejected, Transient
from announce.model.reason import Reason

MAX_RETRY_AFTER_S: Final = 86_400.0
"""Longest wait that a provider is believed to mean."""
MAX_QUOTED: Final = 200
_MAX_READ: Final = 16 * MAX_QUOTED

Content = TypeVar("Content")

_FAULTS: Final[Mapping[TransportFault, Reason]] = {
    TransportFault.TIMEOUT: Reason.TIMEOUT,
    TransportFault.CONNECTION_FAILED: Reason.CONNECTION_FAILED,
    TransportFault.ANSWER_TOO_LARGE: Reason.UNEXPECTED_REPLY,
    TransportFault.ANSWER_UNREADABLE: Reason.UNEXPECTED_REPLY,
}
_SECONDS: Final = re.compile(r"\d+\Z", re.ASCII)
# A provider may repeat what it was sent. Whatever could be a credential or an address is masked: a URL, a public chat
# name or e-mail address, a run as long as a token's, a number as long as a chat's.
# Prefixes are bounded, so that no text takes longer than in proportion to its length.
_PRIVATE: Final = re.compile(r"\w{1,16}://\S+|[^\s@]{0,64}@\S+|[\w.:%+/=~-]{32,}|\d{5,}")


def transport_outcome(failure: TransportFailure) -> Transient:
    """Read a call that got no answer: the next one may."""
    return Transient(reason=_FAULTS[failure.fault], detail=failure.detail)


def status_outcome(status: int, headers: Mapping[str, str]) -> Failure:
    """Read an answer that isn't a delivery by its HTTP status alone, for when the provider's words can't be read.

    A 4xx is final, except where HTTP itself says that it is about time (408, 429) or about the caller (401, 403, 404).
    """
    detail = f"HTTP {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        return ChannelFault(reason=Reason.CREDENTIALS, detail=detail, status_code=status)
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND) or 300 <= status < 400:  # noqa: PLR2004 - redirects
        return ChannelFault(reason=Reason.MISCONFIGURED, detail=detail, status_code=status)
    transient = _transient_reason(status)
    if transient is None:
        return Rejected(reason=Reason.REJECTED, detail=detail, status_code=status)
    if transient is Reason.UNEXPECTED_REPLY:
        detail = f"{detail}, but not the provider's answer"
    return Transient(reason=transient, detail=detail, status_code=status, retry_after_s=retry_after_s(headers))


def _transient_reason(status: int) -> Reason | None:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Reason.RATE_LIMITED
    if status == HTTPStatus.REQUEST_TIMEOUT or 500 <= status < 600:  # noqa: PLR2004 - the server errors
        return Reason.PROVIDER_ERROR
    return None if 400 <= status < 500 else Reason.UNEXPECTED_REPLY  # noqa: PLR2004 - the client errors


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After, in seconds; None when there is none that can be read.

    A date is taken relative to the answer's own Date, so that neither clock needs to be right.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.match(value):
        # More digits than this are beyond the longest wait, and a long enough run of them can't be converted.
        return MAX_RETRY_AFTER_S if len(value) > 9 else min(float(value), MAX_RETRY_AFTER_S)  # noqa: PLR2004
    until, sent_at = _read_date(value), _read_date(headers.get("date", ""))
    if until is None or sent_at is None:
        return None
    return min(max((until - sent_at).total_seconds(), 0.0), MAX_RETRY_AFTER_S)


def _read_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_json(decoder: msgspec.json.Decoder[Content], reply: HttpReply) -> Content | None:
    """Decode an answer's body; None when it isn't of the shape that the decoder expects."""
    try:
        return decoder.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def quote(text: str) -> str:
    """Make a provider's words fit for logs and rows: short, one line, and without what may be nobody's to read."""
    # Cut between words and masked before the last cut: half a token is still half a token.
    head = text if len(text) <= _MAX_READ else text[:_MAX_READ].rpartition(" ")[0]
    shown = _PRIVATE.sub("<...>", printable(head))
    return shown if len(shown) <= MAX_QUOTED else shown[: MAX_QUOTED - 1] + "…"


def printable(text: str) -> str:
    """Replace what a row or a log line can't hold: control characters, NUL and lone surrogates."""
    return "".join(char if char.isprintable() else " " for char in text)


def with_words(failure: Failure, *words: str) -> Failure:
    """Add what the provider said to a failure's detail."""
    return replace(failure, detail=": ".join([failure.detail, *(quote(word) for word in words if word)]))
