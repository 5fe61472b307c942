from pathlib import Path

from announce_stack import layout
from announce_stack.readiness import LOOPBACK, accepts
from announce_stack.server import Server

NAME = "fakes"
FCM, TELEGRAM, WEBHOOK = "fake_fcm", "fake_telegram", "fake_webhook"


def server(folder: Path, ports: tuple[int, int, int], telegram_token: str) -> Server:
    """The fake FCM, Telegram and webhook receiver.

    Args:
        folder: an existing folder; the service account's file is made in it.
        ports: where FCM, Telegram and the receiver listen, on loopback only.
        telegram_token: the bot's token that the fake Telegram knows.
    """
    fcm, telegram, webhook = map(str, ports)
    return Server(
        name=NAME,
        argv=layout.module(
            *("announce_fakes", "--host", LOOPBACK),
            *("--fcm-port", fcm, "--telegram-port", telegram, "--webhook-port", webhook),
            *("--service-account", str(service_account(folder)), "--telegram-token", telegram_token),
        ),
        folder=folder,
        ready=accepts(*ports),
        ports=ports,
    )


def service_account(folder: Path) -> Path:
    """The key file that the fake FCM's clients sign in with."""
    return folder / "fcm-service-account.json"
