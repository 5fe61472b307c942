import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from aiohttp import hdrs, web

from announce_fakes.contract import Call, Reply, content_key
from announce_fakes.endpoint import Endpoint
from announce_fakes.fcm_message import Message, SendRequest, violation
from announce_fakes.google_errors import google_error, invalid_argument, scripted_error
from announce_fakes.oauth import LIFETIME_S, AccessTokens, TokenContract
from announce_fakes.script import Script, ScriptError, read_parameters
from announce_fakes.server import FakeServer, Handler
from announce_fakes.service_account import ServiceAccount, read_or_create

_SEND = re.compile(r"/v1/projects/([^/]+)/messages:send")
_TOKEN_PREFIX = "token_"  # noqa: S105  a parameter's prefix
_SETTINGS = ("token_lifetime", "revoke_tokens")
_NOT_FOUND = google_error(404, "NOT_FOUND", "Requested entity was not found.")
_UNAUTHENTICATED = google_error(
    401,
    "UNAUTHENTICATED",
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other"
    " valid authentication credential.",
)


class FcmScript(Script, frozen=True):
    """A script for FCM. Any parameter of `Script` with `token_` before it is about the token endpoint.

    Attributes:
        token_lifetime: Seconds that the access tokens issued from now on live.
        revoke_tokens: Every access token issued so far is refused from now on.
    """

    token_lifetime: Annotated[int, msgspec.Meta(ge=0)] | None = None
    revoke_tokens: bool = False


class FcmContract:
    """messages:send of FCM HTTP v1."""

    def __init__(self, tokens: AccessTokens) -> None:
        self._tokens = tokens
        self._decoder = msgspec.json.Decoder(SendRequest)
        self._sent = 0
        self.project_id = ""

    def read(self, request: web.BaseRequest, body: bytes) -> Call | Reply:
        """Reads a send request; any other path is none of FCM's."""
        project = _project_of(request.raw_path)
        if project is None or request.method != "POST":
            return _NOT_FOUND
        headers = request.headers
        authorization = headers.get(hdrs.AUTHORIZATION)
        try:
            sent = self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            target, fault = _target_of_any(body), _shape_error(error)
            key = headers.get("X-BA-Delivery-Id") or content_key(target, body)
            return Call(target, key, request.raw_path, body, lambda: self._check(project, authorization) or fault)
        message = sent.message
        target = message.token or message.topic or message.condition or ""
        key = message.data.get("delivery_id") or headers.get("X-BA-Delivery-Id") or content_key(target, body)
        key = "" if sent.validate_only else key
        return Call(
            target,
            key,
            request.raw_path,
            body,
            lambda: self._check(project, authorization) or self._send(project, message, len(body)),
        )

    def refuse(self, script: FcmScript) -> Reply:
        """FCM's own error."""
        return scripted_error(script)

    def _check(self, project: str, authorization: str | None) -> Reply | None:
        if not self._tokens.accept(authorization):
            return _UNAUTHENTICATED
        return _NOT_FOUND if project != self.project_id else None

    def _send(self, project: str, message: Message, body_bytes: int) -> Reply:
        if (wrong := violation(message, body_bytes)) is not None:
            return invalid_argument(*wrong)
        self._sent += 1
        return Reply.of(200, {"name": f"projects/{project}/messages/0:{time.time_ns() // 1000}%{self._sent:016x}"})


class FakeFcm(FakeServer[FcmScript]):
    """FCM HTTP v1 and the OAuth token endpoint, on one port.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        credentials_file: The service account's key file, made when it isn't there. Left out: the account is
            only in memory.
        token_uri: The account's `token_uri`. Left out: this server's own address.

    Attributes:
        account: The service account, once it listens.
        tokens: The token endpoint; its journal has one entry for each token request.
    """

    account: ServiceAccount

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        credentials_file: Path | None = None,
        token_uri: str | None = None,
    ) -> None:
        self._credentials_file = credentials_file
        self._token_uri = token_uri
        self._issued = AccessTokens()
        self._contract = FcmContract(self._issued)
        self._token_contract = TokenContract(self._issued)
        self.tokens: Endpoint[Script] = Endpoint(self._token_contract)
        super().__init__(FcmScript, self._contract, host, port)

    async def stop(self) -> None:
        """Lets go of every call that hangs, and closes."""
        self.tokens.rules.forget()
        await super().stop()

    def summary(self) -> dict[str, Any]:
        """The sums of /received?summary=1; `tokens` are the token endpoint's."""
        return {**super().summary(), "tokens": self.tokens.journal.summary()}

    def _prepare(self) -> None:
        uri = self._token_uri or f"{self.url}/token"
        if self._credentials_file is None:
            self.account = ServiceAccount.generate(uri)
        else:
            self.account = read_or_create(self._credentials_file, uri, exact=self._token_uri is not None)
        self._contract.project_id = self.account.project_id
        self._token_contract.serve(self.account)

    def _control(self, parameters: dict[str, object]) -> None:
        about_tokens = {n for n in parameters if n.startswith(_TOKEN_PREFIX) and n not in _SETTINGS}
        given = {name.removeprefix(_TOKEN_PREFIX): parameters[name] for name in about_tokens}
        token_script = read_parameters(Script, given, _TOKEN_PREFIX)
        if token_script.target is not None:
            raise ScriptError("token_target: the token endpoint has one target only")
        script = read_parameters(FcmScript, {n: v for n, v in parameters.items() if n not in about_tokens})
        self._apply(script)
        self.tokens.apply(token_script)

    def _apply(self, script: FcmScript) -> None:
        super()._apply(script)
        if script.clear or script.reset_rules:
            self.tokens.rules.forget()
            self._issued.lifetime_s = LIFETIME_S
        if script.clear_received:
            self.tokens.journal.clear()
        if script.token_lifetime is not None:
            self._issued.lifetime_s = script.token_lifetime
        if script.revoke_tokens:
            self._issued.revoke()

    def _state(self) -> dict[str, Any]:
        tokens = [rule.describe() for rule in self.tokens.rules.rules()]
        return {**super()._state(), "token_rules": tokens, "token_lifetime": self._issued.lifetime_s}

    def _endpoint(self, path: str) -> Handler:
        return self.tokens.handle if path == "/token" else super()._endpoint(path)


@lru_cache
def _project_of(path: str) -> str | None:
    match = _SEND.fullmatch(path.partition("?")[0])
    return match and match[1]


def _target_of_any(body: bytes) -> str:
    """The target of a body that doesn't fit the message's shape, as far as it has one."""
    try:
        message = msgspec.json.decode(body, type=dict[str, object]).get("message")
    except msgspec.MsgspecError:
        return ""
    if not isinstance(message, dict):
        return ""
    return str(message.get("token") or message.get("topic") or message.get("condition") or "")


def _shape_error(error: msgspec.MsgspecError) -> Reply:
    said = str(error)
    path = re.search(r"`\$\.?([^`]*)`$", said)
    description = f"Invalid JSON payload received. {said}"
    return invalid_argument(path[1] if path else "", description, parsed=False)
