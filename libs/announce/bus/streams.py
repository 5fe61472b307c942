"""The streams and their durable consumers, as the design names them."""

from typing import Final
from uuid import UUID

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from announce.bus.settings import BusSettings, StreamSettings

ALERTS: Final = "BA_ALERTS"
DELIVER: Final = "BA_DELIVER"
OUTCOMES: Final = "BA_OUTCOMES"
EVENTS: Final = "BA_EVENTS"
DEFERRED: Final = "BA_DEFERRED"
ADVISORIES: Final = "BA_ADVISORIES"
PACE: Final = "KV_BA_PACE"

DUPLICATE_WINDOW_S: Final = 120
OUTCOMES_AGE_S: Final = 3 * 86400
DEFERRED_SHARE: Final = 4
"""BA_DEFERRED may become a quarter as large as BA_DELIVER."""
ADVISORIES_MAX_BYTES: Final = 16 << 20
ADVISORIES_AGE_S: Final = 7 * 86400
PACE_MAX_BYTES: Final = 32 << 20
"""Some 200,000 keys."""
PACE_AGE_S: Final = 3600
MAX_ACK_PENDING: Final = 1_000_000
"""Bounds what all replicas of a service hold or have parked.

Deliveries of a company that holds its share are handed back with a delay ("parked"), and these count: were the bound
reached, one company's backlog would keep everybody else's deliveries from being looked at. nats-server looks through
all of them whenever one is due: with 50,000 parked that is what others feel (`scripts/bench/isolation.py`). What each
replica holds has its own bound, far below this one.
"""


def alerts_subject(company_id: str) -> str:
    """Where a company's alerts go in."""
    return f"ba.alerts.{company_id}"


def deliver_subject(channel: str, company_id: str) -> str:
    """Where a delivery waits for its channel."""
    return f"ba.deliver.{channel}.{company_id}"


def outcomes_subject(company_id: str) -> str:
    """Where a company's outcomes are announced."""
    return f"ba.outcomes.{company_id}"


def deferred_subject(subject: str, delivery_id: UUID) -> str:
    """Where a delivery that came on `subject` is put off."""
    return f"ba.deferred.{channel_of(subject)}.{company_of(subject)}.{delivery_id}"


def undeferred_subject(subject: str) -> str:
    """Return the subject that a delivery goes back to from where it was put off."""
    channel, company_id, _ = subject.removeprefix("ba.deferred.").split(".")
    return deliver_subject(channel, company_id)


def advisories_subject(stream: str, durable: str) -> str:
    """Where nats-server tells of the messages that a durable is not given any more."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{durable}"


def pace_subject(channel: str, key: str) -> str:
    """Where a channel keeps the pace of one key."""
    return f"$KV.BA_PACE.{channel}.{key}"


def company_of(subject: str) -> str:
    """Return the company that a subject ends with."""
    return subject.rpartition(".")[2]


def channel_of(subject: str) -> str:
    """Return the channel that a delivery's subject names."""
    return subject.split(".")[2]


def stream_configs(settings: StreamSettings) -> list[StreamConfig]:
    """Return every stream as it should be."""
    return [
        _work_queue(ALERTS, "ba.alerts.*", settings.nats_alerts_max_bytes, settings),
        _work_queue(DELIVER, "ba.deliver.*.*", settings.nats_deliver_max_bytes, settings),
        StreamConfig(
            name=OUTCOMES,
            subjects=["ba.outcomes.*"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            max_age=OUTCOMES_AGE_S,
            max_bytes=settings.nats_outcomes_max_bytes,
            storage=StorageType.FILE,
            num_replicas=settings.nats_replicas,
            duplicate_window=DUPLICATE_WINDOW_S,
            allow_atomic=True,
        ),
        _work_queue(EVENTS, "ba.events.email.*", settings.nats_events_max_bytes, settings),
        # One message a delivery: what comes later takes the place of what is there.
        _work_queue(DEFERRED, "ba.deferred.*.*.*", settings.nats_deliver_max_bytes // DEFERRED_SHARE, settings).evolve(
            max_msgs_per_subject=1
        ),
        StreamConfig(
            name=ADVISORIES,
            subjects=[advisories_subject(ALERTS, "*"), advisories_subject(DELIVER, "*")],
            retention=RetentionPolicy.WORK_QUEUE,
            # The sweep of bus.deadends finds what a discarded advisory told of.
            discard=DiscardPolicy.OLD,
            max_age=ADVISORIES_AGE_S,
            max_bytes=ADVISORIES_MAX_BYTES,
            storage=StorageType.FILE,
            num_replicas=settings.nats_replicas,
        ),
        StreamConfig(
            name=PACE,
            subjects=[pace_subject("*", "*")],
            max_msgs_per_subject=1,
            discard=DiscardPolicy.OLD,
            max_age=PACE_AGE_S,
            max_bytes=PACE_MAX_BYTES,
            # A single server forgets that a stream in memory was there at all when it is started again.
            storage=StorageType.FILE,
            num_replicas=settings.nats_replicas,
            allow_direct=True,
        ),
    ]


def _work_queue(name: str, subject: str, max_bytes: int, settings: StreamSettings) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=[subject],
        retention=RetentionPolicy.WORK_QUEUE,
        # What is full must say so to its publisher; discarding old work would lose it.
        discard=DiscardPolicy.NEW,
        max_bytes=max_bytes,
        storage=StorageType.FILE,
        num_replicas=settings.nats_replicas,
        duplicate_window=DUPLICATE_WINDOW_S,
        allow_atomic=True,
    )


def durable_consumer(durable: str, subject: str, settings: BusSettings) -> ConsumerConfig:
    """Return the consumer of one service's work. It redelivers for as long as nobody settles a message."""
    return ConsumerConfig(
        # With its name too, nats-py asks on a subject that ends with the filter, which permissions can then tell apart.
        name=durable,
        durable_name=durable,
        filter_subject=subject,
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=settings.nats_ack_wait_s,
        max_deliver=-1,
        max_ack_pending=MAX_ACK_PENDING,
    )
