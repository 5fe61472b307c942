import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from announce.outbound.settings import BaseUrl
from announce.runtime.settings import Settings
from announce.runtime.web import ListenAddress

_TOKEN: Final = re.compile(r"\d+:[A-Za-z0-9_-]+\Z", re.ASCII)


def _bot_token(value: SecretStr) -> SecretStr:
    if not _TOKEN.match(value.get_secret_value()):
        raise ValueError("must be a bot's token: its number, a colon, and letters, digits, '_' and '-'")
    return value


class TelegramSettings(Settings):
    """What the Telegram channel's service is told."""

    telegram_bot_token: Annotated[SecretStr, AfterValidator(_bot_token)] = Field(
        description="The bot's token, as BotFather gave it."
    )
    telegram_base_url: BaseUrl = Field("https://api.telegram.org", description="The Bot API's address.")
    telegram_timeout_s: float = Field(15.0, gt=0, le=60, description="Seconds that one call to the Bot API may take.")
    telegram_messages_per_s: float = Field(
        30.0, gt=0, le=10_000, description="Messages a second that the bot sends, all replicas together."
    )
    telegram_chat_interval_s: float = Field(
        1.0, ge=0, le=3600, description="Seconds between two messages to one chat, all replicas together."
    )
    deliverd_telegram_listen: ListenAddress = Field("127.0.0.1:8082", description="host:port of health and metrics.")
