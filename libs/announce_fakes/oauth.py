"""Google's OAuth token endpoint for service accounts (RFC 7523), and the access tokens that it issues."""

import hashlib
import secrets
import time
from urllib.parse import parse_qs

import jwt
from aiohttp import web

from announce_fakes.contract import Call, Reply
from announce_fakes.script import Script
from announce_fakes.service_account import ServiceAccount

LIFETIME_S = 3599
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_SCOPES = {
    "https://www.googleapis.com/auth/firebase.messaging",
    "https://www.googleapis.com/auth/cloud-platform",
}
_MAX_ASSERTION_S = 3600
_BAD_TIMES = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
    " Check your iat and exp values in the JWT claim."
)
_DESCRIPTIONS: dict[type[jwt.InvalidTokenError], str] = {
    jwt.InvalidSignatureError: "Invalid JWT Signature.",
    jwt.InvalidIssuerError: "Invalid grant: account not found",
    jwt.ExpiredSignatureError: _BAD_TIMES,
    jwt.ImmatureSignatureError: _BAD_TIMES,
    jwt.InvalidIssuedAtError: _BAD_TIMES,
}


class AccessTokens:
    """The tokens issued so far.

    Attributes:
        lifetime_s: How long the next ones live, in seconds.
    """

    def __init__(self) -> None:
        self.lifetime_s = LIFETIME_S
        self._ends: dict[str, float] = {}

    def issue(self) -> str:
        """A new token."""
        now = time.monotonic()
        self._ends = {bearer: end for bearer, end in self._ends.items() if end > now}
        token = f"ya29.{secrets.token_urlsafe(32)}"
        self._ends[f"Bearer {token}"] = now + self.lifetime_s
        return token

    def revoke(self) -> None:
        """Ends every token."""
        self._ends.clear()

    def accept(self, authorization: str | None) -> bool:
        """Whether an Authorization header holds a live token."""
        return self._ends.get(authorization or "", 0.0) > time.monotonic()


class TokenContract:
    """Exchanges a signed assertion for an access token."""

    def __init__(self, tokens: AccessTokens) -> None:
        self._tokens = tokens

    def serve(self, account: ServiceAccount) -> None:
        """Says whose assertions are taken."""
        self._account = account
        self._key = account.public_key()

    def read(self, request: web.BaseRequest, body: bytes) -> Call | Reply:
        """Reads a token request."""
        if request.method != "POST":
            return Reply.of(404, {"error": "not_found"})
        form = {name: values[-1] for name, values in parse_qs(body.decode("latin-1")).items()}
        key = hashlib.sha256(body).hexdigest()
        return Call("token", key, request.path, b"", lambda: self._exchange(form))

    def refuse(self, script: Script) -> Reply:
        """An OAuth error; `error_code` is its `error`."""
        status = script.status or (429 if script.retry_after is not None else 400)
        name = script.error_code or ("invalid_grant" if status < 500 else "internal_failure")  # noqa: PLR2004
        return _error(name, "The token endpoint was told to fail.", status)

    def _exchange(self, form: dict[str, str]) -> Reply:
        if form.get("grant_type") != _GRANT:
            return _error("unsupported_grant_type", f"Invalid grant_type: {form.get('grant_type', '')}")
        if fault := self._fault(form.get("assertion", "")):
            return fault
        lifetime = self._tokens.lifetime_s
        issued = {"access_token": self._tokens.issue(), "expires_in": lifetime, "token_type": "Bearer"}
        return Reply.of(200, issued)

    def _fault(self, assertion: str) -> Reply | None:
        account = self._account
        try:
            claims = jwt.decode(
                assertion,
                self._key,
                algorithms=["RS256"],
                audience=account.token_uri,
                issuer=account.client_email,
                options={"require": ["iss", "aud", "iat", "exp", "scope"]},
            )
        except jwt.InvalidTokenError as error:
            return _error("invalid_grant", _DESCRIPTIONS.get(type(error), f"Invalid JWT: {error}"))
        if not 0 < claims["exp"] - claims["iat"] <= _MAX_ASSERTION_S:
            return _error("invalid_grant", _BAD_TIMES)
        if not _SCOPES & set(str(claims["scope"]).split()):
            return _error("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        return None


def _error(name: str, description: str, status: int = 400) -> Reply:
    return Reply.of(status, {"error": name, "error_description": description})
