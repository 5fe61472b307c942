"""What a caller of /control asks for: one script, as query parameters, a JSON object or keywords."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web

Status = Annotated[int, msgspec.Meta(ge=200, le=599)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]

_REDIRECTS, _ERRORS = 300, 400
_SHAPES = ("hang", "reset", "drip", "body_bytes", "html")


class ScriptError(ValueError):
    """A script is wrong; the message names the parameter and the rule."""


class Script(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True, omit_defaults=True):
    """What happens to which calls, and what else to do.

    A script without `status`, `error_code` or `retry_after` lets the provider process the call as ever and
    only spoils the answer, so the call counts as accepted. `hang` and `reset` are the exceptions: they
    strike before the call is processed, unless `status` is a 2xx; then it is processed and its answer lost.

    Attributes:
        fail: True: every call fails with 500, whatever was scripted before. False: none does. With `target`,
            that holds for this target's calls only.
        target: Whose calls: a token, topic, condition, chat id or path; `abc*` is each that starts with
            `abc`. Left out: every call. The most specific rule wins, then the newest.
        times: How many calls, then the rule is forgotten. Left out: until it is cleared.
        status: HTTP status, with the provider's own body for it. A 2xx accepts the call.
        error_code: FCM's `errorCode` (or `none` for an error without one), Telegram's `description`.
        retry_after: Seconds, in the header and wherever else the provider says so. Alone, it means 429.
        location: The Location header of a redirect.
        delay_ms: Wait before the answer, after the call has been processed.
        hang: Never answer, until the rule is cleared (then the call is answered) or the client goes away.
        reset: Break the connection with a TCP RST.
        drip: Send the answer's body at this many bytes a second.
        body_bytes: Send a body of this many bytes instead (named `bytes` outside Python).
        html: Send an HTML page instead.
        clear: First forget every rule and setting.
        reset_rules: The same.
        clear_received: First forget what was received.
    """

    fail: bool | None = None
    target: str | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    status: Status | None = None
    error_code: str | None = None
    retry_after: Natural | None = None
    location: str | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    hang: bool = False
    reset: bool = False
    drip: Positive | None = None
    body_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] | None = msgspec.field(default=None, name="bytes")
    html: bool = False
    clear: bool = False
    reset_rules: bool = False
    clear_received: bool = False

    def __post_init__(self) -> None:
        shapes = [name for name in _SHAPES if getattr(self, name) not in (None, False)]
        if len(shapes) > 1:
            raise ValueError(f"{shapes[1]}: can't be combined with {shapes[0]}")
        if self.fail is not None and (self.status or self.error_code):
            raise ValueError("fail: stands for status=500 or for nothing; leave out status and error_code")
        if self.location is not None and not _REDIRECTS <= (self.status or 0) < _ERRORS:
            raise ValueError("location: needs a status from 300 to 399")
        if self.times is not None and not (self.acts or self.fail):
            raise ValueError("times: says how often something happens; say what")
        if self.target is not None and not (self.acts or self.fail is not None or self.sets):
            raise ValueError("target: says to whom something happens; say what")

    @property
    def refuses(self) -> bool:
        """Whether the provider answers the call with an error of its own, unprocessed."""
        if self.status is not None:
            return self.status >= _REDIRECTS
        return self.error_code is not None or self.retry_after is not None

    @property
    def acts(self) -> bool:
        """Whether the script does anything to a call."""
        shaped = any(getattr(self, name) not in (None, False) for name in _SHAPES)
        return shaped or self.refuses or self.status is not None or self.delay_ms is not None

    @property
    def sets(self) -> bool:
        """Whether the script changes a setting of the fake that is bound to a target."""
        return False

    @property
    def shape(self) -> str:
        """The name of what is done to the answer: `hang`, `reset`, `drip`, `bytes`, `html` or nothing."""
        for name in _SHAPES:
            if getattr(self, name) not in (None, False):
                return name.removeprefix("body_")
        return ""


T = TypeVar("T", bound=msgspec.Struct)


def read_parameters(shape: type[T], parameters: Mapping[str, object], prefix: str = "") -> T:
    """Turns parameters, which may all be text, into a struct.

    Args:
        shape: The struct to build.
        parameters: Values by name.
        prefix: What callers put before these names; errors show it.

    Raises:
        ScriptError: A parameter is unknown, has the wrong type or is out of its range.
    """
    values = dict(parameters)
    # Chat ids are numbers to Telegram, but every target is compared as text.
    if isinstance(values.get("target"), int):
        values["target"] = str(values["target"])
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        said = str(error)
        for mark in ("`$.", "unknown field `"):
            said = said.replace(mark, mark + prefix)
        raise ScriptError(said) from None


async def request_parameters(request: web.BaseRequest) -> dict[str, object]:
    """Collects a request's parameters from its query and from its JSON body.

    Raises:
        ScriptError: A parameter is given twice, or the body is no JSON object.
    """
    parameters: dict[str, object] = {}
    for name, value in request.query.items():
        if name in parameters:
            raise ScriptError(f"{name}: given twice")
        parameters[name] = value
    if body := await request.read():
        try:
            given = msgspec.json.decode(body, type=dict[str, object])
        except msgspec.MsgspecError as error:
            raise ScriptError(f"the body must be a JSON object: {error}") from None
        if twice := parameters.keys() & given.keys():
            raise ScriptError(f"{min(twice)}: given twice")
        parameters |= given
    return parameters
