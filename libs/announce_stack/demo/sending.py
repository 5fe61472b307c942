"""What is sent, what is said to it, and what becomes of it: the values that the demo deals in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

Fields = Mapping[str, object]
"""An alert as its producer writes it."""


class How(StrEnum):
    """By which way an alert comes in."""

    HTTP = "HTTP"
    NATS = "NATS"


class Status(StrEnum):
    """How a delivery can end."""

    SENT = "sent"
    EXPIRED = "expired"
    DEAD = "dead letter"


class End(NamedTuple):
    """How one delivery ended; for a dead letter of ingest's there is no address, and there were no tries."""

    channel: str
    address: str | None
    status: Status
    tries: int
    reason: str = ""

    def __str__(self) -> str:
        where = f"{self.channel} {self.address}" if self.address else self.channel
        tries = f"{self.tries} {'try' if self.tries == 1 else 'tries'}"
        return f"{where}: {self.status}, {tries}" + (f", {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One call of a producer's, and what should come of it.

    Attributes:
        what: in a few words.
        how: the way in.
        alerts: each with its id; several over HTTP make a batch.
        answer: what the producer should be told.
        ends: how its deliveries should end.
        forged: whether it is signed with another secret than the key's.
        repeats: whether it says again what was said before, so that its ends are the earlier one's.
    """

    what: str
    how: How
    alerts: Sequence[Fields]
    answer: str
    ends: Sequence[End] = ()
    forged: bool = False
    repeats: bool = False

    @property
    def ids(self) -> frozenset[str]:
        """The ids of its alerts."""
        return frozenset(str(alert["alert_id"]) for alert in self.alerts)


class Answer(NamedTuple):
    """What a producer is told.

    Attributes:
        text: in a few words.
        accepted: the ids of the alerts that were taken in as new.
        sent_us: when the sending began, on the machine's monotonic clock, in microseconds.
        took_ms: from then to the answer.
    """

    text: str
    accepted: frozenset[str]
    sent_us: int
    took_ms: float


class Call(NamedTuple):
    """A message that reached a provider.

    Attributes:
        delivery_id: the delivery that it was made for.
        accepted: whether the provider took it.
        came_us: when, on the machine's monotonic clock, in microseconds.
    """

    delivery_id: str
    accepted: bool
    came_us: int


class Delivery(NamedTuple):
    """A delivery that has ended, and of which alert; a dead letter of ingest's has no delivery's id."""

    alert_id: str
    delivery_id: str | None
    end: End


class Story(NamedTuple):
    """All that happened to the alerts of one sending.

    Attributes:
        deliveries: those that have ended.
        calls: what reached the providers.
        ended: whether all had come to their end when the demo stopped waiting.
    """

    deliveries: Sequence[Delivery]
    calls: Sequence[Call]
    ended: bool


class Result(NamedTuple):
    """A sending with its answer and its story."""

    sending: Sending
    answer: Answer
    story: Story
