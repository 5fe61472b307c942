"""An alert on its way into JetStream."""

import hashlib
from typing import Final, NamedTuple

from announce.bus.publisher import OutgoingMessage
from announce.bus.streams import alerts_subject
from announce.model.alert import Alert, ForeignCompany, InvalidAlert, NotJson, parse_company_alert
from announce.model.envelope import TRACE_HEADER
from announce.model.trace import continue_trace
from announce.store.alerts import AlertKey
from ingestd.authentication import Producer
from ingestd.problems import malformed

CONTENT_HASH_HEADER: Final = "BA-Content-Hash"


class Offer(NamedTuple):
    """A valid alert that a producer offers; its id is filled in."""

    key: AlertKey
    alert: Alert
    content_hash: bytes
    traceparent: str

    def message(self, msg_id: str | None = None) -> OutgoingMessage:
        """Write it as the message that JetStream keeps."""
        return OutgoingMessage(
            alerts_subject(self.key.company_id),
            self.alert.encode(),
            msg_id or ":".join(self.key),
            {TRACE_HEADER: self.traceparent, CONTENT_HASH_HEADER: self.content_hash.hex()},
        )


def read_offer(raw: bytes, producer: Producer, traceparent: str | None) -> Offer:
    """Read what a producer sent as one alert.

    Raises:
        Problem: 400, 403 or 422.
    """
    try:
        alert = parse_company_alert(raw, producer.company_id)
    except (NotJson, InvalidAlert, ForeignCompany) as error:
        raise malformed(error) from None
    named = name_alert(alert, producer.key_id, producer.timestamp, raw)
    key = AlertKey(producer.company_id, named.alert_id or "")
    return Offer(key, named, named.content_hash(), continue_trace(traceparent))


def name_alert(alert: Alert, *origin: str | bytes) -> Alert:
    """Fill in an id where the producer gave none: one and the same for whatever has the same origin."""
    if alert.alert_id is not None:
        return alert
    digest = hashlib.sha256()
    for part in origin:
        raw = part if isinstance(part, bytes) else part.encode()
        digest.update(b"%d:%b" % (len(raw), raw))
    return alert.model_copy(update={"alert_id": f"auto-{digest.hexdigest()[:32]}"})
