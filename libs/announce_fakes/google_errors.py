"""Error bodies of Google's APIs, as FCM HTTP v1 sends them."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from announce_fakes.contract import Reply
from announce_fakes.script import Script, ScriptError

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"

# errorCode: HTTP status, google.rpc status, message.
_CODES = {
    "UNSPECIFIED_ERROR": (500, "UNKNOWN", "An unknown error occurred."),
    "INVALID_ARGUMENT": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "UNREGISTERED": (404, "NOT_FOUND", "Requested entity was not found."),
    "SENDER_ID_MISMATCH": (403, "PERMISSION_DENIED", "SenderId mismatch"),
    "QUOTA_EXCEEDED": (429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Messages sent'."),
    "UNAVAILABLE": (503, "UNAVAILABLE", "The service is currently unavailable."),
    "INTERNAL": (500, "INTERNAL", "Internal error encountered."),
    "THIRD_PARTY_AUTH_ERROR": (401, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service"),
    "APNS_AUTH_ERROR": (401, "UNAUTHENTICATED", "Auth error from APNS"),
}
_NO_CODE = "none"
_CODE_OF_STATUS = {
    400: "INVALID_ARGUMENT",
    403: "SENDER_ID_MISMATCH",
    404: "UNREGISTERED",
    429: "QUOTA_EXCEEDED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
# Google's HTTP mapping of google.rpc codes, where a status has no FcmError of its own.
_RPC_OF_STATUS = {
    401: "UNAUTHENTICATED",
    409: "ABORTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}


def google_error(status: int, rpc: str, message: str, details: Sequence[Mapping[str, object]] = ()) -> Reply:
    """A Google API's error answer."""
    error: dict[str, object] = {"code": status, "message": message, "status": rpc}
    if details:
        error["details"] = details
    return Reply.of(status, {"error": error})


def invalid_argument(field: str, description: str, *, parsed: bool = True) -> Reply:
    """What FCM says about a message that it won't take.

    Args:
        field: The offending field's path.
        description: What is wrong with it.
        parsed: False: the JSON doesn't even fit the message's shape, which is found before FCM sees it, so
            that no FcmError is there.
    """
    violation = {"@type": BAD_REQUEST, "fieldViolations": [{"field": field, "description": description}]}
    fcm = [{"@type": FCM_ERROR, "errorCode": "INVALID_ARGUMENT"}] if parsed else []
    return google_error(400, "INVALID_ARGUMENT", description, [*fcm, violation])


def scripted_error(script: Script) -> Reply:
    """FCM's error for a script's `status`, `error_code` or both.

    Raises:
        ScriptError: The code is not one of FCM's, and no status says how it would look.
    """
    asked = script.error_code
    if asked is None:
        asked = _CODE_OF_STATUS.get(script.status or HTTPStatus.TOO_MANY_REQUESTS, _NO_CODE)
    if asked not in _CODES and script.status is None:
        known = ", ".join(_CODES)
        raise ScriptError(f"error_code: `{asked}` needs a status, since it is none of FCM's codes ({known})")
    status, rpc, message = _CODES.get(asked, (0, "", ""))
    status = script.status or status
    if not rpc:
        like = _CODES.get(_CODE_OF_STATUS.get(status, ""), (status, _RPC_OF_STATUS.get(status, "UNKNOWN"), ""))
        rpc, message = like[1], like[2] or f"The request failed with status {status}."
    details = [] if asked == _NO_CODE else [{"@type": FCM_ERROR, "errorCode": asked}]
    return google_error(status, rpc, message, details)
