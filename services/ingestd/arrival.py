"""Reading a message of BA_ALERTS: a valid alert of its company, or something to be refused."""

from typing import Final, NamedTuple

from announce.bus.consumer import Delivery
from announce.bus.streams import company_of
from announce.model.alert import (
    MAX_ALERT_BYTES,
    Alert,
    ForeignCompany,
    InvalidAlert,
    NotJson,
    parse_company_alert,
    valid_company_id,
)
from announce.model.envelope import MSG_ID_HEADER, TRACE_HEADER
from announce.model.identity import ALERT_ID
from announce.model.reason import Reason
from announce.model.trace import continue_trace
from announce.store.alerts import AcceptedAlert, AlertKey
from ingestd.offer import CONTENT_HASH_HEADER, name_alert

# What ingestd itself has written may be longer than what it was sent: it has filled in the id.
OWN_ADDITION_BYTES: Final = 256


REASONS: Final = (
    Reason.INVALID_SUBJECT,
    Reason.UNKNOWN_COMPANY,
    Reason.TOO_LARGE,
    Reason.NOT_JSON,
    Reason.INVALID_ALERT,
    Reason.FOREIGN_COMPANY,
    Reason.ALERT_ID_REUSED,
)
"""Every reason that a refusal can have."""


class Refusal(NamedTuple):
    """Why a message isn't taken."""

    reason: Reason
    detail: str
    alert_id: str | None = None


class Arrived(NamedTuple):
    """A valid alert, and what the database keeps of it."""

    alert: Alert
    record: AcceptedAlert


def read_subject(subject: str) -> str | Refusal:
    """Return the company that a subject names."""
    company_id = company_of(subject)
    if valid_company_id(company_id):
        return company_id
    return Refusal(Reason.INVALID_SUBJECT, "subject: must end with a company's id")


def read_arrival(delivery: Delivery, company_id: str) -> Arrived | Refusal:
    """Read a message that was published for this company."""
    addition = OWN_ADDITION_BYTES if delivery.header(CONTENT_HASH_HEADER) else 0
    if len(delivery.data) > MAX_ALERT_BYTES + addition:
        return Refusal(Reason.TOO_LARGE, f"alert: must not be more than {MAX_ALERT_BYTES} bytes")
    try:
        alert = parse_company_alert(delivery.data, company_id)
    except NotJson as error:
        return Refusal(Reason.NOT_JSON, str(error))
    except InvalidAlert as error:
        return Refusal(Reason.INVALID_ALERT, str(error))
    except ForeignCompany as error:
        return Refusal(Reason.FOREIGN_COMPANY, str(error))
    named = _named(alert, delivery, company_id)
    return Arrived(named, _record(named, delivery, company_id))


def _named(alert: Alert, delivery: Delivery, company_id: str) -> Alert:
    """Fill in an id: the producer's own message id, where it can be one, is the same when it publishes again."""
    msg_id = (delivery.header(MSG_ID_HEADER) or "").removeprefix(f"{company_id}:")
    if alert.alert_id is None and ALERT_ID.match(msg_id):
        return alert.model_copy(update={"alert_id": msg_id})
    return name_alert(alert, company_id, str(delivery.origin.stream_seq), delivery.data)


def _record(alert: Alert, delivery: Delivery, company_id: str) -> AcceptedAlert:
    accepted_at = delivery.origin.published_at
    return AcceptedAlert(
        key=AlertKey(company_id, alert.alert_id or ""),
        accepted_at=accepted_at,
        stream_seq=delivery.origin.stream_seq,
        content_hash=alert.content_hash(),
        severity=alert.severity,
        title=alert.title,
        expires_at=alert.expiry(accepted_at),
        content=alert.encode(),
        traceparent=continue_trace(delivery.header(TRACE_HEADER)),
    )
