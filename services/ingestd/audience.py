"""Who an alert goes to, and the message that each one's delivery is."""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from announce.bus.publisher import OutgoingMessage
from announce.bus.streams import deliver_subject
from announce.model.alert import Alert
from announce.model.envelope import TRACE_HEADER, Envelope, Message, encode_envelope
from announce.model.identity import DeliveryIds
from announce.model.target import address_of, target_at
from announce.observe.logging import event
from announce.store.subscriptions import Recipient
from ingestd import metrics
from ingestd.arrival import Arrived

log = logging.getLogger(__name__)


class Addressee(NamedTuple):
    """One target, and the address that stands for it."""

    channel: str
    address: str
    target: dict[str, str | int]


def named_targets(alert: Alert) -> list[Addressee]:
    """Return the targets that the alert itself names, each address once."""
    found: dict[tuple[str, str], Addressee] = {}
    for each in alert.targets or ():
        target = each.model_dump(exclude_none=True)
        address = address_of(target)
        found.setdefault((each.channel, address), Addressee(each.channel, address, target))
    return list(found.values())


def subscribers(recipients: Iterable[Recipient]) -> Iterator[Addressee]:
    """Read stored addresses back into targets, and leave out those that can't be read."""
    for subscription_id, channel, address in recipients:
        try:
            yield Addressee(channel, address, target_at(channel, address))
        except (KeyError, ValueError):
            metrics.UNREADABLE.inc()
            event(log, logging.ERROR, "subscription unreadable", subscription_id=subscription_id, channel=channel)


class Mailing:
    """Writes the envelopes of one alert."""

    def __init__(self, arrived: Arrived) -> None:
        alert, self._record = arrived
        self._message = Message(
            title=alert.title,
            body=alert.body,
            severity=alert.severity,
            data=alert.data,
            collapse_key=alert.collapse_key,
        )
        self._ids = DeliveryIds(*self._record.key)
        self._headers = {TRACE_HEADER: self._record.traceparent}

    def to(self, addressees: Iterable[Addressee]) -> list[OutgoingMessage]:
        """Write a delivery to each. The same fan-out run twice writes the same messages."""
        return [self._to(*addressee) for addressee in addressees]

    def _to(self, channel: str, address: str, target: dict[str, str | int]) -> OutgoingMessage:
        company_id, alert_id = self._record.key
        identity = self._ids.of(channel, address)
        envelope = Envelope(
            delivery_id=identity,
            alert_id=alert_id,
            company_id=company_id,
            channel=channel,
            target=target,
            message=self._message,
            created_at=self._record.accepted_at,
            expires_at=self._record.expires_at,
        )
        subject = deliver_subject(channel, company_id)
        return OutgoingMessage(subject, encode_envelope(envelope), identity.hex, self._headers)
