"""The Telegram Bot API's sendMessage: how a delivery is asked for, and what the reply means. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from announce.model.alert import Severity
from announce.model.channel import OutboundRequest, Reply, TransportFailure
from announce.model.envelope import Envelope
from announce.model.outcome import Outcome
from announce.model.replies import transport_outcome
from deliverd_telegram.answer import read_answer
from deliverd_telegram.text import write_html, write_plain


class _PreviewOptions(Struct, frozen=True):
    is_disabled: bool


class _Message(Struct, frozen=True, omit_defaults=True):
    chat_id: str | int
    text: str
    # A preview would let Telegram's servers fetch a link that may be internal or good for one visit only, and it
    # pushes the alert's text off a small screen.
    link_preview_options: _PreviewOptions
    parse_mode: str | None = None
    message_thread_id: str | int | None = None
    disable_notification: bool = False


_NO_PREVIEW: Final = _PreviewOptions(is_disabled=True)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class TelegramChannel:
    """One bot.

    Args:
        base_url: the Bot API's address.
        timeout_s: how long one attempt may take.
    """

    base_url: str
    timeout_s: float

    @property
    def name(self) -> str:
        """The channel's name."""
        return "telegram"

    def build_request(self, envelope: Envelope, credential: str, plain: bool, /) -> OutboundRequest:  # noqa: FBT001
        """Write sendMessage for this envelope. The credential is the bot's token, and stands in the URL.

        Raises:
            ValueError: the envelope names no chat.
        """
        write = write_plain if plain else write_html
        message = _Message(
            chat_id=_chat_id(envelope.target),
            text=write(envelope.message.title, envelope.message.body),
            parse_mode=None if plain else "HTML",
            link_preview_options=_NO_PREVIEW,
            message_thread_id=envelope.target.get("message_thread_id"),
            disable_notification=envelope.message.severity is Severity.INFO,
        )
        return OutboundRequest(
            url=f"{self.base_url}/bot{credential}/sendMessage",
            # The Bot API has no place for it in a message; so whoever sees the calls can still tell a repeat.
            headers={"Content-Type": "application/json", "X-BA-Delivery-Id": str(envelope.delivery_id)},
            body=_encode(message),
        )

    def classify(self, reply: Reply) -> Outcome:
        """Read what the Bot API's reply means."""
        return transport_outcome(reply) if isinstance(reply, TransportFailure) else read_answer(reply)


def _chat_id(target: Mapping[str, str | int]) -> str | int:
    if "chat_id" not in target:
        raise ValueError("target: must have a chat_id")
    return target["chat_id"]
