import hashlib
import hmac
import re
import time
from typing import Any

from aiohttp import web

from announce_fakes.contract import Call, Reply, content_key, phrase
from announce_fakes.script import Script
from announce_fakes.server import FakeServer

_TOLERANCE_S = 300
_HEADER = re.compile(r"t=([0-9]{1,12})((?:,v1=[0-9a-f]{64})+)")


class WebhookScript(Script, frozen=True):
    """A script for the receiver.

    Attributes:
        secret: What signs the requests to `target`, or to every path without a secret of its own; given again,
            it is one more, as while secrets are rotated.
    """

    secret: str | None = None

    @property
    def sets(self) -> bool:
        """Whether the script changes a setting that is bound to a target."""
        return self.secret is not None


class WebhookContract:
    """A receiver that takes a POST on any path.

    A signature is checked where the path has a secret; the verdict is recorded and doesn't change the answer:
    `valid`, `missing`, `malformed`, `stale` (over 300 s away) or `mismatch`.
    """

    def __init__(self) -> None:
        self.secrets: dict[str, list[bytes]] = {}

    def read(self, request: web.BaseRequest, body: bytes) -> Call | Reply:
        """Reads a delivery."""
        if request.method != "POST":
            return Reply(405, b"", headers={"Allow": "POST"})
        path, headers = request.raw_path.partition("?")[0], request.headers
        given = headers.get("X-BA-Delivery-Id") or headers.get("X-MailHub-Delivery")
        key = given or content_key(path, body)
        secrets = self.secrets.get(path) or self.secrets.get("*")
        verdict = verify(headers.get("X-MailHub-Signature"), body, secrets) if secrets else ""
        return Call(path, key, request.raw_path, body, lambda: Reply.of(200, {"received": True}), verdict)

    def refuse(self, script: WebhookScript) -> Reply:
        """A receiver's error; `error_code` is its text."""
        status = script.status or (429 if script.retry_after is not None else 500)
        return Reply.of(status, {"error": script.error_code or phrase(status)})


class FakeWebhook(FakeServer[WebhookScript]):
    """A business system that receives webhooks.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._contract = WebhookContract()
        super().__init__(WebhookScript, self._contract, host, port)

    def _apply(self, script: WebhookScript) -> None:
        super()._apply(script)
        if script.clear or script.reset_rules:
            self._contract.secrets.clear()
        if script.secret is not None:
            self._contract.secrets.setdefault(script.target or "*", []).append(script.secret.encode())

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "secrets": {path: len(known) for path, known in self._contract.secrets.items()}}


def verify(header: str | None, body: bytes, secrets: list[bytes]) -> str:
    """The verdict on an `X-MailHub-Signature` header: `t=<seconds>,v1=<hex>`, with a `v1` for each secret."""
    if header is None:
        return "missing"
    match = _HEADER.fullmatch(header)
    if match is None:
        return "malformed"
    signed = match[1].encode() + b"." + body
    expected = [hmac.new(secret, signed, hashlib.sha256).hexdigest() for secret in secrets]
    found = match[2].removeprefix(",v1=").split(",v1=")
    if not any(hmac.compare_digest(one, other) for one in expected for other in found):
        return "mismatch"
    return "valid" if abs(time.time() - int(match[1])) <= _TOLERANCE_S else "stale"
