"""What a producer sends: reading it, and naming everything that is wrong with it."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, NoReturn, Self

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from announce.model.identity import ALERT_ID, COMPANY_ID
from announce.model.target import CHANNELS, Target
from announce.model.text import Storable, StrictModel, Text

MAX_ALERT_BYTES: Final = 64 * 1024
MAX_TARGETS: Final = 1000
MAX_TTL_S: Final = 365 * 86400
MAX_ERRORS: Final = 100
"""How many broken rules an answer names, so that it stays smaller than the alert."""
MAX_NAME: Final = 64
"""How much of an unknown field's name an answer repeats."""


class Severity(StrEnum):
    """How much an alert matters; ordered as written here."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """The place in the order, from 0."""
        return list(Severity).index(self)


def _alert_id(value: str) -> str:
    if not ALERT_ID.match(value):
        raise PydanticCustomError("alert_id", "must be 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'")
    return value


def _timestamp(value: object) -> object:
    """Read RFC 3339; a number or a time without a zone says too little."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) and "T" in value.upper() else None
    if moment is None or moment.tzinfo is None:
        raise ValueError("not RFC 3339")
    return moment.astimezone(UTC)


def _expiry(value: object) -> object:
    try:
        return _timestamp(value)
    except (ValueError, OverflowError):
        raise PydanticCustomError(
            "timestamp", "must be an RFC 3339 time with its zone, such as 2026-01-31T12:00:00Z"
        ) from None


class Alert(StrictModel):
    """One alert, validated. Field limits are those of the ingest contract."""

    company_id: Text | None = None
    alert_id: Annotated[str, AfterValidator(_alert_id)] | None = None
    severity: Annotated[Severity, Field(strict=False)] = Severity.INFO
    title: Annotated[str, Field(min_length=1, max_length=256), Storable]
    body: Annotated[str, Field(max_length=4096), Storable] = ""
    data: dict[Text, Text] = Field(default_factory=dict)
    tags: Annotated[list[Annotated[str, Field(min_length=1, max_length=64), Storable]], Field(max_length=16)] = Field(
        default_factory=list
    )
    targets: Annotated[list[Target], Field(min_length=1, max_length=MAX_TARGETS)] | None = None
    ttl_s: Annotated[int, Field(ge=1, le=MAX_TTL_S)] | None = None
    expires_at: Annotated[datetime, BeforeValidator(_expiry)] | None = None
    collapse_key: Annotated[str, Field(min_length=1, max_length=64), Storable] | None = None

    @model_validator(mode="after")
    def _expires_once(self) -> Self:
        if self.ttl_s is not None and self.expires_at is not None:
            raise PydanticCustomError("expiry", "ttl_s and expires_at must not both be given")
        return self

    def expiry(self, accepted_at: datetime) -> datetime | None:
        """When it is too late to deliver, or None when it never is."""
        return self.expires_at if self.ttl_s is None else accepted_at + timedelta(seconds=self.ttl_s)

    def content_hash(self) -> bytes:
        """SHA-256 of what it says: the same however it was written down, whoever sent it."""
        content = self.model_dump(mode="json", exclude={"company_id", "alert_id"}, exclude_defaults=True)
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).digest()

    def encode(self) -> bytes:
        """Write it as the JSON that producers send."""
        return self.model_dump_json(exclude_defaults=True).encode()


class FieldError(NamedTuple):
    """One thing that is wrong, and where: `targets[0].token`."""

    field: str
    rule: str


class NotJson(ValueError):  # noqa: N818 - it says what is the case
    """The bytes aren't one JSON object that could be an alert."""


class InvalidAlert(ValueError):  # noqa: N818 - likewise
    """It is a JSON object, but not an alert."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.rule}" for error in errors))
        self.errors = errors


def parse_alert(raw: bytes) -> Alert:
    """Read one alert.

    Raises:
        NotJson: it can't be read as a JSON object.
        InvalidAlert: some fields break their rules; each is named.
    """
    content = _load_object(raw)
    try:
        return Alert.model_validate(content)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise InvalidAlert([_field_error(detail) for detail in details[:MAX_ERRORS]]) from None


class ForeignCompany(ValueError):  # noqa: N818 - likewise
    """The alert names another company than the one that its producer speaks for."""

    def __init__(self) -> None:
        super().__init__("company_id: must be the producer's own company, or be left out")


def parse_company_alert(raw: bytes, company_id: str) -> Alert:
    """Read one alert of a company.

    Raises:
        NotJson, InvalidAlert: as `parse_alert`.
        ForeignCompany: it names another company.
    """
    alert = parse_alert(raw)
    if alert.company_id is not None and alert.company_id != company_id:
        raise ForeignCompany
    return alert


def valid_company_id(value: str) -> bool:
    """Tell whether it can name a company, and so be a token of a NATS subject."""
    return COMPANY_ID.match(value) is not None


def _load_object(raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: byte {error.start} can't be decoded") from None
    except RecursionError:
        raise NotJson("not JSON that can be an alert: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise NotJson(f"not JSON that can be an alert: {error}") from None
    if not isinstance(content, dict):
        raise NotJson("an alert is a JSON object")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a field is given twice")
    return content


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _field_error(detail: ErrorDetails) -> FieldError:
    path = ""
    for part in detail["loc"]:
        # The discriminator stands in pydantic's path, not in the document.
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]" and not (path.endswith("]") and part in CHANNELS):
            name = part.encode("unicode_escape").decode()[:MAX_NAME]
            path += f".{name}" if path else name
    return FieldError(path or "alert", _RULES.get(detail["type"], detail["msg"]))


_RULES: Final = {
    "extra_forbidden": "unknown field",
    "missing": "required",
    "string_unicode": "must not contain a lone surrogate",
    # pydantic's own words repeat what was given instead, whatever it is.
    "union_tag_invalid": f"channel must be one of {', '.join(map(repr, CHANNELS))}",
}
