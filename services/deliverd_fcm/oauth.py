"""The exchange of a service account's signature for an access token (RFC 7523), as Google does it. Pure.

google-auth would do it too, but its refresh of a service account blocks the event loop, and its asynchronous part
knows only tokens that somebody else fetched. What remains without it is one signed claim and one form.
"""

from http import HTTPStatus
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlencode

import jwt
import msgspec
from msgspec import Meta, Struct

from announce.model.channel import HttpReply, OutboundRequest, Reply, TransportFailure
from announce.model.outcome import ChannelFault, Failure, Transient
from announce.model.reason import Reason
from announce.model.replies import read_json, status_outcome, transport_outcome, with_words
from deliverd_fcm.service_account import ServiceAccount

SCOPE: Final = "https://www.googleapis.com/auth/firebase.messaging"
ASSERTION_LIFETIME_S: Final = 3600
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_SUBJECT: Final = "OAuth token endpoint"


class Grant(Struct, frozen=True):
    """An access token, and for how many seconds it is good."""

    # Only what can stand in a header.
    access_token: Annotated[str, Meta(pattern=r"^[!-~]+$", max_length=8192)]
    expires_in: Annotated[int, Meta(ge=0, le=1 << 31)]


class NoGrant(NamedTuple):
    """Why there is no token, and for how many seconds the endpoint asked to be left alone."""

    fault: ChannelFault
    retry_after_s: float


class _Refusal(Struct, frozen=True):
    error: str
    error_description: str = ""


_grant: Final = msgspec.json.Decoder(Grant)
_refusal: Final = msgspec.json.Decoder(_Refusal)


def token_request(account: ServiceAccount, now: int) -> OutboundRequest:
    """Ask for an access token; `now` is in Unix seconds."""
    claims = {
        "iss": account.client_email,
        "aud": account.token_uri,
        "scope": SCOPE,
        "iat": now,
        "exp": now + ASSERTION_LIFETIME_S,
    }
    assertion = jwt.encode(claims, account.key, algorithm="RS256", headers={"kid": account.key_id})
    return OutboundRequest(
        url=account.token_uri,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=urlencode({"grant_type": _GRANT, "assertion": assertion}).encode(),
    )


def read_token(reply: Reply) -> Grant | NoGrant:
    """Read the token, or say why there is none."""
    if isinstance(reply, TransportFailure):
        return _no_grant(transport_outcome(reply))
    if reply.status == HTTPStatus.OK and (grant := read_json(_grant, reply)):
        return grant
    return _no_grant(with_words(status_outcome(reply.status, reply.headers), *_words(reply)))


def _no_grant(failure: Failure) -> NoGrant:
    # Refused or not to be asked, it is so for every delivery alike: none of them must pay for it.
    fault = ChannelFault(
        reason=Reason.CREDENTIALS, detail=f"{_SUBJECT}: {failure.detail}", status_code=failure.status_code
    )
    return NoGrant(fault, (failure.retry_after_s or 0.0) if isinstance(failure, Transient) else 0.0)


def _words(reply: HttpReply) -> tuple[str, ...]:
    refusal = read_json(_refusal, reply)
    return (refusal.error, refusal.error_description) if refusal else ()
