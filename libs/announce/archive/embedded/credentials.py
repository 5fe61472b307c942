import hmac
from binascii import Error as Base64Error
from typing import Final

from aiohttp import BasicAuth, hdrs, web

from announce.archive.embedded.failure import QueryError
from announce.archive.embedded.settings import CredentialSettings

_DENIED: Final = "Authentication failed: password is incorrect, or there is no user with such name"


def check(request: web.Request, url: dict[str, str], settings: CredentialSettings) -> None:
    """Check a request's credentials, which come as Basic authorization, in ClickHouse's headers or in the URL.

    Raises:
        QueryError: they are not those of the user.
    """
    name, password = _given(request, url)
    known = hmac.compare_digest(name.encode(), settings.clickhouse_embedded_user.encode())
    expected = settings.clickhouse_embedded_password.get_secret_value()
    if not (hmac.compare_digest(password.encode(), expected.encode()) and known):
        raise QueryError(516, "AUTHENTICATION_FAILED", _DENIED)


def _given(request: web.Request, url: dict[str, str]) -> tuple[str, str]:
    header = request.headers.get(hdrs.AUTHORIZATION)
    if header is not None:
        try:
            basic = BasicAuth.decode(header, encoding="utf-8")
        except (ValueError, Base64Error):
            raise QueryError(516, "AUTHENTICATION_FAILED", "The Authorization header is not Basic") from None
        return basic.login or "default", basic.password
    name = request.headers.get("X-ClickHouse-User") or url.get("user") or "default"
    return name, request.headers.get("X-ClickHouse-Key") or url.get("password") or ""
