from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator

from announce.runtime.settings import Settings

_DEFAULT_PORTS = {"http": 8123, "https": 8443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where ClickHouse is and who we are there."""

    scheme: str
    host: str
    port: int
    user: str
    password: SecretStr
    database: str


class ArchiveSettings(Settings):
    """How a service reaches ClickHouse."""

    clickhouse_dsn: SecretStr = Field(
        SecretStr("http://127.0.0.1:8123/default"),
        description="http://[user:password@]host:port/database, or https; the embedded server takes the same.",
    )

    @field_validator("clickhouse_dsn")
    @classmethod
    def _readable(cls, dsn: SecretStr) -> SecretStr:
        endpoint(dsn)
        return dsn


def endpoint(dsn: SecretStr) -> Endpoint:
    """Take a DSN apart.

    Raises:
        ValueError: it isn't of the form `http://[user:password@]host:port/database`; the text doesn't repeat it.
    """
    try:
        parts = urlsplit(dsn.get_secret_value())
        port = parts.port
    except ValueError:
        raise ValueError("must be http://[user:password@]host:port/database: the host or the port is none") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError("must be http://[user:password@]host:port/database, or the same with https")
    if parts.query or parts.fragment or "/" in parts.path[1:]:
        raise ValueError("must end with the database: no further path, no query, no fragment")
    return Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[parts.scheme],
        user=unquote(parts.username or "default"),
        password=SecretStr(unquote(parts.password or "")),
        database=unquote(parts.path[1:]) or "default",
    )
