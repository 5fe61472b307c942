from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from announce.model.channel import HttpReply, Reply, TransportFailure, TransportFault
from announce.model.outcome import ChannelFault
from announce.model.reason import Reason
from deliverd_fcm.oauth import SCOPE, Grant, NoGrant, read_token, token_request
from deliverd_fcm.service_account import ServiceAccount

ACCOUNT = ServiceAccount(
    project_id="demo-project",
    client_email="announce@demo-project.iam.gserviceaccount.com",
    key_id="key-1",
    key=rsa.generate_private_key(public_exponent=65537, key_size=2048),
    token_uri="https://oauth2.example/token",
)
NOW = 1_796_000_000


def test_the_claim_is_signed_and_says_who_asks_for_what() -> None:
    request = token_request(ACCOUNT, NOW)
    assert request.url == ACCOUNT.token_uri
    assert request.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    form = parse_qs(request.body.decode(), strict_parsing=True)
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    (assertion,) = form["assertion"]
    assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    # Its times are the test's own, so only the signature is checked against a clock-less reading.
    claims = jwt.decode(
        assertion,
        ACCOUNT.key.public_key(),
        algorithms=["RS256"],
        audience=ACCOUNT.token_uri,
        options={"verify_exp": False, "verify_iat": False},
    )
    assert claims == {
        "iss": ACCOUNT.client_email,
        "aud": ACCOUNT.token_uri,
        "scope": SCOPE,
        "iat": NOW,
        "exp": NOW + 3600,
    }


def test_a_token_and_its_lifetime_are_read() -> None:
    body = b'{"access_token":"ya29.abc","expires_in":3599,"token_type":"Bearer"}'
    assert read_token(HttpReply(200, {}, body)) == Grant("ya29.abc", 3599)


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (
            HttpReply(400, {}, b'{"error":"invalid_grant","error_description":"Invalid JWT Signature."}'),
            "HTTP 400: invalid_grant: Invalid JWT Signature.",
        ),
        (HttpReply(401, {}, b""), "HTTP 401"),
        (HttpReply(404, {}, b"<html>"), "HTTP 404"),
        (HttpReply(302, {}, b""), "HTTP 302"),
        (HttpReply(408, {}, b""), "HTTP 408"),
        (HttpReply(429, {}, b""), "HTTP 429"),
        (HttpReply(503, {}, b""), "HTTP 503"),
        (TransportFailure(TransportFault.CONNECTION_FAILED, "connection refused"), "connection refused"),
        (TransportFailure(TransportFault.TIMEOUT, "no answer within 10 s"), "no answer within 10 s"),
    ],
)
def test_whatever_the_lack_of_a_token_comes_from_it_holds_up_the_whole_channel(reply: Reply, detail: str) -> None:
    status = reply.status if isinstance(reply, HttpReply) else None
    fault = ChannelFault(reason=Reason.CREDENTIALS, detail=f"OAuth token endpoint: {detail}", status_code=status)
    assert read_token(reply) == NoGrant(fault, 0.0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"access_token":"","expires_in":3599}',
        b'{"access_token":"a\\r\\nX-Evil: 1","expires_in":3599}',
        b'{"access_token":"a b","expires_in":3599}',
        b'{"access_token":"a","expires_in":-1}',
        b'{"access_token":"a","expires_in":"soon"}',
        b'{"access_token":"a"}',
    ],
)
def test_a_200_without_a_usable_token_is_no_token(body: bytes) -> None:
    outcome = read_token(HttpReply(200, {}, body))
    assert isinstance(outcome, NoGrant)
    assert outcome.fault.detail == "OAuth token endpoint: HTTP 200, but not the provider's answer"


@pytest.mark.parametrize("status", [429, 503])
def test_the_endpoint_s_retry_after_is_passed_on(status: int) -> None:
    outcome = read_token(HttpReply(status, {"retry-after": "12"}, b""))
    assert isinstance(outcome, NoGrant)
    assert outcome.retry_after_s == 12
