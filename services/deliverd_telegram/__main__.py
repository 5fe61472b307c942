from typing import NoReturn

from announce.delivery.pace import Limits
from announce.delivery.service import ChannelParts, run_worker
from announce.outbound.client import HttpClient
from announce.runtime.settings import load
from deliverd_telegram.channel import TelegramChannel
from deliverd_telegram.credentials import BotToken
from deliverd_telegram.settings import TelegramSettings


def main() -> NoReturn:
    """Run the service until a signal stops it."""
    settings = load(TelegramSettings)

    def make(_: HttpClient) -> ChannelParts:
        channel = TelegramChannel(settings.telegram_base_url, settings.telegram_timeout_s)
        limits = Limits(settings.telegram_messages_per_s, settings.telegram_chat_interval_s)
        return ChannelParts(channel, BotToken(settings.telegram_bot_token), limits)

    run_worker("deliverd_telegram", settings.deliverd_telegram_listen, make)


if __name__ == "__main__":
    main()
