"""What is announced of a delivery's end, and the message that says so."""

from announce.bus.publisher import OutgoingMessage
from announce.bus.streams import outcomes_subject
from announce.model.envelope import Envelope
from announce.model.outcome_event import OutcomeEvent, encode_outcome_event
from announce.store.deliveries import Ended


def announcement(envelope: Envelope, end: Ended) -> OutcomeEvent:
    """Say how a delivery ended."""
    return OutcomeEvent(
        delivery_id=envelope.delivery_id,
        alert_id=envelope.alert_id,
        company_id=envelope.company_id,
        channel=envelope.channel,
        target=end.target,
        status=end.status,
        reason=end.reason,
        status_code=end.status_code,
        attempts=end.attempts,
        occurred_at=end.created_at,
        replay_of=envelope.replay_of,
    )


def announcing_message(stream_seq: int, event: OutcomeEvent) -> OutgoingMessage:
    """Write the message. Its id is the same when the end of message `stream_seq` is announced again."""
    msg_id = f"outcome:{stream_seq}:{event.delivery_id}"
    return OutgoingMessage(outcomes_subject(event.company_id), encode_outcome_event(event), msg_id)
