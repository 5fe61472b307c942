from typing import NoReturn

from announce.delivery.service import ChannelParts, run_worker
from announce.outbound.client import HttpClient
from announce.runtime.settings import load
from deliverd_fcm.channel import FcmChannel
from deliverd_fcm.credentials import ServiceAccountTokens
from deliverd_fcm.settings import FcmSettings


def main() -> NoReturn:
    """Run the service until a signal stops it."""
    settings = load(FcmSettings)
    account = settings.fcm_credentials_file

    def make(client: HttpClient) -> ChannelParts:
        channel = FcmChannel(settings.fcm_base_url, account.project_id, settings.fcm_timeout_s)
        return ChannelParts(channel, ServiceAccountTokens(account, client))

    run_worker("deliverd_fcm", settings.deliverd_fcm_listen, make)


if __name__ == "__main__":
    main()
