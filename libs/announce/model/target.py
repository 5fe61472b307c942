"""Targets: one address on one channel.

A target is written as an object (in alerts and envelopes) and as an address (in subscriptions and rows). An
FCM token stands for itself; a topic is written `/topics/<name>`, as FCM's own legacy `to` field did, and a
condition is recognised by its quotes: neither can occur in a token. A Telegram thread is written
`<chat_id>/<thread>`.

A new channel adds its model and its codec here, and nothing else in this package.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from announce.model.text import Storable, StrictModel

Fields = Mapping[str, str | int]
"""A target as it stands in an envelope: its channel and the fields of that channel's model that are set."""

FcmToken = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\s/']+$"), Storable]
FcmTopic = Annotated[str, Field(pattern=r"^[a-zA-Z0-9\-_.~%]{1,900}$"), Storable]
FcmCondition = Annotated[str, Field(min_length=1, max_length=2048, pattern=r"'[^']+' in topics"), Storable]
_CHAT_NAME = re.compile(r"@[A-Za-z0-9_]{1,64}\Z")


def _chat_id(value: object) -> int | str:
    if isinstance(value, str) and _CHAT_NAME.match(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    raise PydanticCustomError("chat_id", "must be a 64-bit integer or a public name such as @channel")


ChatId = Annotated[int | str, PlainValidator(_chat_id)]


class FcmTarget(StrictModel):
    """A device (`token`), everyone on a topic, or a boolean `condition` over topics."""

    channel: Literal["fcm"]
    token: FcmToken | None = None
    topic: FcmTopic | None = None
    condition: FcmCondition | None = None

    @model_validator(mode="after")
    def _names_one_receiver(self) -> Self:
        if sum(field is not None for field in (self.token, self.topic, self.condition)) != 1:
            raise PydanticCustomError("receiver", "must have exactly one of token, topic and condition")
        return self


class TelegramTarget(StrictModel):
    """A chat by number or by its public `@name`, and a thread of it where it has threads."""

    channel: Literal["telegram"]
    chat_id: ChatId
    message_thread_id: Annotated[int, Field(ge=1, lt=2**63)] | None = None


Target = Annotated[FcmTarget | TelegramTarget, Field(discriminator="channel")]


class AddressCodec(NamedTuple):
    """How a channel writes its targets as addresses, and reads them back."""

    write: Callable[[Fields], str]
    read: Callable[[str], dict[str, str | int]]


def _write_fcm(fields: Fields) -> str:
    if "topic" in fields:
        return f"/topics/{fields['topic']}"
    return str(fields["token"] if "token" in fields else fields["condition"])


def _read_fcm(address: str) -> dict[str, str | int]:
    if address.startswith("/topics/"):
        return {"channel": "fcm", "topic": address.removeprefix("/topics/")}
    return {"channel": "fcm", "condition" if "'" in address else "token": address}


def _write_telegram(fields: Fields) -> str:
    thread = fields.get("message_thread_id")
    return str(fields["chat_id"]) if thread is None else f"{fields['chat_id']}/{thread}"


def _read_telegram(address: str) -> dict[str, str | int]:
    chat, _, thread = address.partition("/")
    fields: dict[str, str | int] = {"channel": "telegram", "chat_id": chat if chat[:1] == "@" else int(chat)}
    return fields | {"message_thread_id": int(thread)} if thread else fields


CHANNELS: Final[Mapping[str, AddressCodec]] = {
    "fcm": AddressCodec(_write_fcm, _read_fcm),
    "telegram": AddressCodec(_write_telegram, _read_telegram),
}


def address_of(fields: Fields) -> str:
    """Write a validated target as its address."""
    return CHANNELS[str(fields["channel"])].write(fields)


def target_at(channel: str, address: str) -> dict[str, str | int]:
    """Read a stored address back into a target.

    Raises:
        KeyError: there is no such channel.
        ValueError: the address isn't one of that channel's.
    """
    return CHANNELS[channel].read(address)
