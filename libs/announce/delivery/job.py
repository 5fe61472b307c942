"""A delivery while this process holds it, and the rows that it leaves behind."""

from dataclasses import dataclass
from datetime import datetime

from announce.bus.consumer import Delivery
from announce.model.envelope import Envelope
from announce.model.identity import row_id
from announce.model.outcome import Delivered, Failure, Outcome, Rejected
from announce.model.payload import raw_payload, storable_payload
from announce.model.reason import Reason
from announce.store.deliveries import AttemptRow, DeadLetterRow

MAX_ERROR_CHARS = 1000


@dataclass(slots=True, eq=False)
class Job:
    """One delivery on its way.

    `attempt` counts the calls made so far, those before a redelivery included; `tries` those of them that count
    against the retry policy.
    """

    delivery: Delivery
    envelope: Envelope
    address: str
    traceparent: str
    attempt: int
    tries: int
    started_at: datetime
    started_s: float
    """On the event loop's clock: the retry budget must not jump with the wall clock."""
    credential_renewed: bool = False

    def attempt_row(self, outcome: Outcome, began_at: datetime, latency_s: float | None) -> AttemptRow:
        """Write down the attempt that was just made."""
        envelope = self.envelope
        delivered = outcome if isinstance(outcome, Delivered) else None
        failure = None if isinstance(outcome, Delivered) else outcome
        return AttemptRow(
            id=row_id(began_at),
            created_at=began_at,
            company_id=envelope.company_id,
            alert_id=envelope.alert_id,
            delivery_id=envelope.delivery_id,
            channel=envelope.channel,
            target=self.address,
            attempts=self.attempt,
            status="sent" if delivered else "failed",
            reason=failure.reason if failure else None,
            status_code=outcome.status_code,
            last_error=storable_text(failure.detail) if failure else None,
            latency_ms=None if latency_s is None else round(latency_s * 1000, 3),
            provider_message_id=delivered.provider_message_id if delivered else None,
            replay_of=envelope.replay_of,
        )

    def expired_row(self, now: datetime) -> AttemptRow:
        """Write down that it was too late to send."""
        detail = f"expired at {self.envelope.expires_at}, after {self.attempt} attempts"
        return self.attempt_row(Rejected(reason=Reason.EXPIRED, detail=detail), now, None)._replace(status="expired")

    def dead_letter(self, failure: Failure, now: datetime) -> DeadLetterRow:
        """Sum up a delivery that failed for good, with the envelope exactly as it was published."""
        return DeadLetterRow(
            id=row_id(now),
            created_at=now,
            company_id=self.envelope.company_id,
            alert_id=self.envelope.alert_id,
            delivery_id=self.envelope.delivery_id,
            channel=self.envelope.channel,
            target=self.address,
            original_subject=self.delivery.subject,
            payload=storable_payload(self.delivery.data),
            attempts=self.attempt,
            reason=failure.reason,
            status_code=failure.status_code,
            last_error=storable_text(failure.detail),
            first_attempt_at=self.started_at,
        )


def undecodable_letter(delivery: Delivery, problem: str) -> DeadLetterRow:
    """Keep a message that isn't an envelope, byte for byte."""
    _, _, channel, company_id = delivery.subject.split(".")
    return DeadLetterRow(
        # The same when it comes again, so that it is kept once.
        id=row_id(delivery.origin.published_at, delivery.origin.stream_seq),
        created_at=delivery.origin.published_at,
        company_id=company_id,
        alert_id=None,
        delivery_id=None,
        channel=channel,
        target=None,
        original_subject=delivery.subject,
        payload=raw_payload(delivery.data),
        attempts=0,
        reason=Reason.UNDECODABLE,
        status_code=None,
        last_error=storable_text(problem),
        first_attempt_at=delivery.origin.published_at,
    )


def storable_text(text: str) -> str:
    """Bound a text, and take out what Postgres can't hold."""
    return text[:MAX_ERROR_CHARS].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
