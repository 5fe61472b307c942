"""The streams and their durable consumers, as the design names them."""

from typing import Final

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

DUPLICATE_WINDOW_S: Final = 120
OUTCOMES_AGE_S: Final = 3 * 86400
MAX_ACK_PENDING: Final = 20_000
"""Bounds what all replicas of a service hold together; each replica's own bound is far below it."""


def alerts_subject(company_id: str) -> str:
    """Where a company's alerts go in."""
    return f"ba.alerts.{company_id}"


def deliver_subject(channel: str, company_id: str) -> str:
    """Where a delivery waits for its channel."""
    return f"ba.deliver.{channel}.{company_id}"


def outcomes_subject(company_id: str) -> str:
    """Where a company's outcomes are announced."""
    return f"ba.outcomes.{company_id}"


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
        durable_name=durable,
        filter_subject=subject,
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=settings.nats_ack_wait_s,
        max_deliver=-1,
        max_ack_pending=MAX_ACK_PENDING,
    )
