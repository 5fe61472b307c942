"""The rows of the dead-letter queue: of deliveries that failed, and of messages that were none."""

from datetime import datetime
from typing import Final, NamedTuple

from announce.bus.source import Source
from announce.bus.streams import channel_of, company_of
from announce.model.envelope import Envelope
from announce.model.identity import row_id
from announce.model.outcome import Failure
from announce.model.payload import raw_payload, storable_payload
from announce.model.reason import Reason
from announce.store.deliveries import DeadLetterRow

MAX_ERROR_CHARS: Final = 1000


class Attempts(NamedTuple):
    """How often a delivery was tried, and since when."""

    made: int
    first_at: datetime


def failed_letter(
    source: Source, envelope: Envelope, address: str, attempts: Attempts, failure: Failure
) -> DeadLetterRow:
    """Sum up a delivery that failed for good, with the envelope exactly as it was published."""
    return raw_letter(source, failure.reason, failure.detail)._replace(
        company_id=envelope.company_id,
        alert_id=envelope.alert_id,
        delivery_id=envelope.delivery_id,
        channel=envelope.channel,
        target=address,
        payload=storable_payload(source.data),
        attempts=attempts.made,
        status_code=failure.status_code,
        first_attempt_at=attempts.first_at,
    )


def raw_letter(source: Source, reason: Reason, problem: str) -> DeadLetterRow:
    """Keep a message byte for byte.

    Its id and time are the message's, so that one that comes again is kept once.
    """
    return DeadLetterRow(
        id=row_id(source.published_at, source.seq),
        created_at=source.published_at,
        company_id=company_of(source.subject),
        alert_id=None,
        delivery_id=None,
        channel=channel_of(source.subject),
        target=None,
        original_subject=source.subject,
        payload=raw_payload(source.data),
        attempts=0,
        reason=reason,
        status_code=None,
        last_error=storable_text(problem),
        first_attempt_at=source.published_at,
    )


def storable_text(text: str) -> str:
    """Bound a text, and take out what Postgres can't hold."""
    return text[:MAX_ERROR_CHARS].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
