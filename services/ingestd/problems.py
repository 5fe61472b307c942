"""Each way in which ingest refuses a request or a line of a batch, and what it says then."""

from enum import StrEnum
from typing import Final

from announce.model.alert import ForeignCompany, InvalidAlert, NotJson
from announce.runtime.problem import Problem

RETRY_S: Final = 2
ERRORS_IN_DETAIL: Final = 5
"""The text is for a person, and for the log; the document's `errors` has more."""


class Kind(StrEnum):
    """A closed set: it ends the document's `type` and labels the metric."""

    NOT_JSON = "not-json"
    EMPTY_BATCH = "empty-batch"
    MISSING_HEADER = "missing-header"
    BAD_TIMESTAMP = "bad-timestamp"
    CLOCK_SKEW = "clock-skew"
    BAD_SIGNATURE = "bad-signature"
    FOREIGN_COMPANY = "foreign-company"
    BODY_TIMEOUT = "body-timeout"
    ALERT_ID_REUSED = "alert-id-reused"
    TOO_LARGE = "too-large"
    COMPRESSED = "compressed"
    INVALID_ALERT = "invalid-alert"
    RATE_EXCEEDED = "rate-exceeded"
    UNAVAILABLE = "unavailable"


def unauthorized(kind: Kind, detail: str) -> Problem:
    """The request's signature doesn't hold."""
    return Problem(401, kind, detail, {"WWW-Authenticate": "BA-Signature"})


def malformed(error: NotJson | InvalidAlert | ForeignCompany) -> Problem:
    """The alert can't be taken as it stands."""
    if isinstance(error, NotJson):
        return Problem(400, Kind.NOT_JSON, str(error))
    if isinstance(error, ForeignCompany):
        return Problem(403, Kind.FOREIGN_COMPANY, str(error))
    errors = [each._asdict() for each in error.errors]
    return Problem(422, Kind.INVALID_ALERT, str(InvalidAlert(error.errors[:ERRORS_IN_DETAIL])), errors=errors)


def empty_batch() -> Problem:
    """A batch without lines is a mistake of the producer's."""
    return Problem(400, Kind.EMPTY_BATCH, "A batch must have at least one line.")


def too_large(what: str, limit: str) -> Problem:
    """More than anybody may send."""
    return Problem(413, Kind.TOO_LARGE, f"{what} must not be more than {limit}.")


def compressed() -> Problem:
    """A body that isn't sent as it is."""
    return Problem(415, Kind.COMPRESSED, "Content-Encoding: the body must be sent uncompressed.")


def body_timeout(seconds: float) -> Problem:
    """The client stopped sending."""
    return Problem(408, Kind.BODY_TIMEOUT, f"The body didn't come within {seconds:g} s.", {"Connection": "close"})


def alert_id_reused() -> Problem:
    """One id, two contents."""
    return Problem(409, Kind.ALERT_ID_REUSED, "alert_id: was used for an alert with other content.")


def rate_exceeded(wait_s: int) -> Problem:
    """The company sends faster than it may."""
    return Problem(429, Kind.RATE_EXCEEDED, "The company's rate is exceeded.", {"Retry-After": str(wait_s)})


def unavailable(detail: str) -> Problem:
    """We can't promise to keep the alert now."""
    return Problem(503, Kind.UNAVAILABLE, detail, {"Retry-After": str(RETRY_S)})
