import itertools
import math
import re
import time
from typing import Any
from urllib.parse import parse_qs

import msgspec
from aiohttp import web

from announce_fakes.contract import Call, Reply, content_key
from announce_fakes.flood import Pace
from announce_fakes.script import Positive, Script
from announce_fakes.server import FakeServer
from announce_fakes.telegram_errors import BadRequestError, refusal, scripted_error, too_many
from announce_fakes.telegram_html import EntityError, parse_html

DEFAULT_TOKEN = "1000001:announce-fakes-demo-bot-token"  # noqa: S105  made up, and printed at the start
_PATH = re.compile(r"/bot([^/]*)/([A-Za-z]+)")
_CHAT_ID = re.compile(r"-?[1-9][0-9]{0,18}|@[A-Za-z][A-Za-z0-9_]{3,31}")
_MAX_TEXT = 4096
_CHAT_PER_S, _BOT_PER_S = 1.0, 30.0
# Below this, an id is a supergroup's or a channel's.
_SUPERGROUP_BELOW = -1_000_000_000_000


class TelegramScript(Script, frozen=True):
    """A script for the Bot API; `error_code` is the `description`.

    Attributes:
        migrate_to_chat_id: Refuse, since the group has become this supergroup.
        rate_limit: Whether messages beyond the rates are answered with 429. Off at the start.
        chat_per_s: Messages a second to one chat.
        bot_per_s: Messages a second in all.
    """

    migrate_to_chat_id: int | None = None
    rate_limit: bool | None = None
    chat_per_s: Positive | None = None
    bot_per_s: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.chat_per_s or self.bot_per_s) and not self.rate_limit:
            raise ValueError("chat_per_s, bot_per_s: need rate_limit=1")

    @property
    def refuses(self) -> bool:
        """Whether the provider answers the call with an error of its own, unprocessed."""
        return super().refuses or self.migrate_to_chat_id is not None


class TelegramContract:
    """sendMessage of the Bot API, and getMe.

    Requests may be JSON, form fields or a query. HTML is parsed; Markdown is refused as unsupported, so that
    nothing looks accepted that Telegram might refuse.

    Args:
        token: The bot's token.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._message_ids = itertools.count(1)
        self.paces: tuple[Pace, Pace] | None = None

    def read(self, request: web.BaseRequest, body: bytes) -> Call | Reply:
        """Reads a call of sendMessage; every other is answered at once."""
        match = _PATH.fullmatch(request.raw_path.partition("?")[0])
        if match is None:
            return refusal(404, "Not Found")
        authorized = match[1] == self._token
        if match[2].lower() != "sendmessage":
            return self._other(match[2]) if authorized else refusal(401, "Unauthorized")
        fields = _fields(request, body)
        target, text = _text(fields, "chat_id"), _text(fields, "text")
        given = request.headers.get("X-BA-Delivery-Id")
        key = given or content_key(target, text.encode())
        shown = body if request.content_type == "application/json" else msgspec.json.encode(fields)
        return Call(
            target,
            key,
            f"/bot.../{match[2]}",
            shown,
            lambda: self._send(fields, target, text) if authorized else refusal(401, "Unauthorized"),
        )

    def refuse(self, script: TelegramScript) -> Reply:
        """The Bot API's error for a script.

        Raises:
            ScriptError: A description doesn't say which status it has, and neither does the script.
        """
        return scripted_error(script, script.migrate_to_chat_id)

    def _other(self, method: str) -> Reply:
        if method.lower() != "getme":
            return refusal(404, "Not Found: method not found")
        return Reply.of(200, {"ok": True, "result": self._bot()})

    def _bot(self) -> dict[str, object]:
        number = self._token.partition(":")[0]
        return {
            "id": int(number) if number.isdigit() else 0,
            "is_bot": True,
            "first_name": "Fake",
            "username": "fake_bot",
        }

    def _send(self, fields: dict[str, object], target: str, text: str) -> Reply:
        try:
            plain = _checked(target, text, _text(fields, "parse_mode"))
        except BadRequestError as error:
            return refusal(400, f"Bad Request: {error}")
        return self._flooded(target) or self._accept(fields, target, plain)

    def _flooded(self, target: str) -> Reply | None:
        if self.paces is None:
            return None
        chat, bot = self.paces
        wait = max(chat.wait_s(target), bot.wait_s(""))
        if wait > 0:
            return too_many(math.ceil(wait))
        chat.take(target)
        bot.take("")
        return None

    def _accept(self, fields: dict[str, object], target: str, plain: str) -> Reply:
        thread = _text(fields, "message_thread_id")
        topic = {"message_thread_id": int(thread), "is_topic_message": True} if thread.isdecimal() else {}
        result = {
            "message_id": next(self._message_ids),
            **topic,
            "from": self._bot(),
            "chat": _chat(target),
            "date": int(time.time()),
            "text": plain,
        }
        return Reply.of(200, {"ok": True, "result": result})


class FakeTelegram(FakeServer[TelegramScript]):
    """The Telegram Bot API.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        token: The bot's token.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, token: str = DEFAULT_TOKEN) -> None:
        self.token = token
        self._contract = TelegramContract(token)
        super().__init__(TelegramScript, self._contract, host, port)

    def _apply(self, script: TelegramScript) -> None:
        super()._apply(script)
        if script.clear or script.reset_rules or script.rate_limit is False:
            self._contract.paces = None
        if script.rate_limit:
            bot_per_s = script.bot_per_s or _BOT_PER_S
            self._contract.paces = (Pace(script.chat_per_s or _CHAT_PER_S, 1), Pace(bot_per_s, max(1, bot_per_s)))

    def _state(self) -> dict[str, Any]:
        paces = self._contract.paces
        limit = None if paces is None else {"chat_per_s": paces[0].per_s, "bot_per_s": paces[1].per_s}
        return {**super()._state(), "rate_limit": limit}


def _checked(target: str, text: str, mode: str) -> str:
    """The plain text that a chat would see."""
    if not target:
        raise BadRequestError("chat_id is empty")
    if not _CHAT_ID.fullmatch(target):
        raise BadRequestError("chat not found")
    if not text:
        raise BadRequestError("message text is empty")
    if mode and mode.lower() != "html":
        raise BadRequestError("unsupported parse_mode")
    try:
        plain = (parse_html(text) if mode else text).strip()
    except EntityError as error:
        raise BadRequestError(f"can't parse entities: {error}") from None
    if not plain:
        raise BadRequestError("text must be non-empty")
    if len(plain) > _MAX_TEXT:
        raise BadRequestError("message is too long")
    return plain


def _fields(request: web.BaseRequest, body: bytes) -> dict[str, object]:
    fields: dict[str, object] = dict(request.query)
    if request.content_type == "application/json":
        try:
            given = msgspec.json.decode(body)
        except msgspec.MsgspecError:
            given = None
        return fields | given if isinstance(given, dict) else fields
    form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return fields | {name: values[-1] for name, values in form.items()}


def _text(fields: dict[str, object], name: str) -> str:
    """A field as text, whichever way it came; empty when it isn't there."""
    value = fields.get(name)
    return "" if value is None else str(value)


def _chat(target: str) -> dict[str, object]:
    if target.startswith("@"):
        return {"id": _SUPERGROUP_BELOW - 1, "username": target[1:], "title": target[1:], "type": "channel"}
    number = int(target)
    if number > 0:
        return {"id": number, "first_name": "Fake", "type": "private"}
    return {"id": number, "title": "Fake", "type": "supergroup" if number < _SUPERGROUP_BELOW else "group"}
