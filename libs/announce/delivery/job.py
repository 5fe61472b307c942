"""A delivery while this process holds it, and the rows that it leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from announce.bus.consumer import Delivery
from announce.delivery.letter import storable_text
from announce.model.envelope import Envelope
from announce.model.identity import row_id
from announce.model.outcome import Delivered, Outcome, Rejected
from announce.model.reason import Reason
from announce.model.target import address_of
from announce.store.deliveries import AttemptRow


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
    deferrals: int
    first_attempt_at: datetime
    started_s: float
    """On the event loop's clock: the retry budget must not jump with the wall clock."""
    admitted: bool = False
    """Has had its target's turn."""
    credential_renewed: bool = False
    moved: bool = False
    plain: bool = False

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

    def move(self, moved_to: Mapping[str, str | int]) -> None:
        """Go on with the target that this one has become."""
        self.envelope = structs.replace(self.envelope, target={**self.envelope.target, **moved_to})
        self.address = address_of(self.envelope.target)
