from pydantic import Field
from pydantic_settings import SettingsConfigDict

from announce.runtime.settings import Settings


class AdmindSettings(Settings):
    """The operators' service."""

    model_config = SettingsConfigDict(env_prefix="BA_ADMIND_")

    listen: str = Field("127.0.0.1:8083", description="host:port of the API and the pages.")
