"""Error bodies of Telegram's Bot API."""

from http import HTTPStatus

import msgspec

from announce_fakes.contract import Reply, phrase
from announce_fakes.script import Script, ScriptError

_UPGRADED = "Bad Request: group chat was upgraded to a supergroup chat"
_DESCRIPTIONS = {
    400: "Bad Request: chat not found",
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    409: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    500: "Internal Server Error: restart",
    502: "Bad Gateway",
}
_STATUS_OF_PREFIX = {
    "Bad Request": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "Not Found": 404,
    "Conflict": 409,
    "Too Many Requests": 429,
    "Internal Server Error": 500,
    "Bad Gateway": 502,
}


class BadRequestError(ValueError):
    """A call is refused with 400; the message is the description after "Bad Request: "."""


def refusal(status: int, description: str, parameters: dict[str, object] | None = None) -> Reply:
    """An error answer of the Bot API."""
    said: dict[str, object] = {"ok": False, "error_code": status, "description": description}
    if parameters is not None:
        said["parameters"] = parameters
    return Reply.of(status, said)


def too_many(retry_after: int, status: int = 429, description: str | None = None) -> Reply:
    """The answer to a call that came too soon; `retry_after` in seconds."""
    said = description or f"Too Many Requests: retry after {retry_after}"
    reply = refusal(status, said, {"retry_after": retry_after})
    return msgspec.structs.replace(reply, headers={"Retry-After": str(retry_after)})


def scripted_error(script: Script, migrate_to_chat_id: int | None) -> Reply:
    """The Bot API's error for a script's `status`, `error_code` (the description) or both.

    Raises:
        ScriptError: The description doesn't say which status it has, and neither does the script.
    """
    description, status = script.error_code, script.status
    if migrate_to_chat_id is not None:
        return refusal(status or 400, description or _UPGRADED, {"migrate_to_chat_id": migrate_to_chat_id})
    if status is None:
        status = 429 if description is None else _STATUS_OF_PREFIX.get(description.partition(":")[0])
    if status is None:
        raise ScriptError(f"error_code: `{description}` needs a status, since it begins like no known description")
    if script.retry_after is not None or status == HTTPStatus.TOO_MANY_REQUESTS:
        return too_many(script.retry_after or 1, status, description)
    return refusal(status, description or _DESCRIPTIONS.get(status, phrase(status)))
