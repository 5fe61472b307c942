from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import SettingsConfigDict
from yarl import URL

from announce.runtime.settings import Settings


class OutboundSettings(Settings):
    """How calls to providers are made."""

    model_config = SettingsConfigDict(env_prefix="BA_OUTBOUND_")

    max_answer_bytes: int = Field(
        65_536,
        ge=1024,
        le=1 << 24,
        description="Most bytes of an answer's body that are read; a longer one is a failure.",
    )
    keepalive_s: float = Field(
        30.0, gt=0, le=3600, description="Seconds after which an idle connection to a provider is closed."
    )


def http_url(value: str) -> str:
    """Check the address of something that is called.

    Raises:
        ValueError: it isn't an http or https URL, or holds more than a host and a path.
    """
    try:
        url = URL(value)
    except ValueError:
        raise ValueError("must be a URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("must be an http or https URL with a host")
    if url.user is not None or url.password is not None:
        raise ValueError("must not hold a user or a password")
    if url.query_string or url.fragment:
        raise ValueError("must not hold a query or a fragment")
    return str(url)


BaseUrl = Annotated[str, AfterValidator(lambda value: http_url(value).rstrip("/"))]
"""A provider's address, without a slash at its end."""
