import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import msgspec
from cryptography.fernet import Fernet

from announce_stack import nats, record

TOKEN_LIFE = timedelta(days=365)
ISSUER = "broad-announce"


def _word() -> str:
    return secrets.token_hex(16)


class Secrets(msgspec.Struct, kw_only=True):
    """What is made up once for a stack.

    Attributes:
        nats: a password for each user, by the variable that the configuration reads it from.
        fernet: encrypts secrets at rest.
        jwt: signs admind's tokens.
        telegram_token: in the form that Telegram gives a bot's token.
    """

    nats: dict[str, str] = msgspec.field(default_factory=nats.fresh_passwords)
    postgres: str = msgspec.field(default_factory=_word)
    clickhouse: str = msgspec.field(default_factory=_word)
    fernet: str = msgspec.field(default_factory=lambda: Fernet.generate_key().decode())
    jwt: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))
    admin_password: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(12))
    telegram_token: str = msgspec.field(default_factory=lambda: f"123456:AA{secrets.token_hex(16)}a")
    demo_key_id: str = msgspec.field(default_factory=lambda: f"key_{secrets.token_hex(8)}")
    demo_secret: str = msgspec.field(default_factory=lambda: f"basec_{secrets.token_urlsafe(32)}")


class Plan(msgspec.Struct, kw_only=True):
    """What the last `up` was asked for.

    Attributes:
        names: the servers and replicas that belong to the stack.
        overrides: settings that the services get from the caller's environment.
    """

    names: tuple[str, ...] = ()
    overrides: dict[str, str] = {}


class State(msgspec.Struct, kw_only=True):
    """What a stack remembers in its folder, so that it comes back as it was.

    Attributes:
        ports: by the name of what listens there.
        admin_token: a JWT with the role admin.
    """

    ports: dict[str, int] = {}
    secrets: Secrets = msgspec.field(default_factory=Secrets)
    plan: Plan = msgspec.field(default_factory=Plan)
    admin_token: str = ""

    def save(self, folder: Path) -> None:
        """Writes it to `state.json`, readable by the owner only."""
        record.write(_path(folder), self)


def load(folder: Path) -> State | None:
    """The state in `folder`, or None when no stack was ever started there."""
    return record.read(_path(folder), State)


def admin_token(user: str, secret: str, now: datetime) -> str:
    """A JWT that lets its bearer do at admind what an admin may, for a year."""
    claims = {
        "sub": user,
        "role": "admin",
        "iat": now.astimezone(UTC),
        "exp": now.astimezone(UTC) + TOKEN_LIFE,
        "iss": ISSUER,
        "aud": ISSUER,
    }
    return jwt.encode(claims, secret, algorithm="HS256")


def _path(folder: Path) -> Path:
    return folder / "state.json"
