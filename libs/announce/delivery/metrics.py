"""What Prometheus and the log hear of a channel. Every combination of labels exists from the start, at zero."""

import logging
from enum import StrEnum
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from announce.model.outcome import Delivered, Outcome
from announce.model.reason import Reason
from announce.observe.logging import event
from announce.store.deliveries import AttemptRow

log = logging.getLogger(__name__)


class Settled(StrEnum):
    """How a message is settled: done with, given back, given back until the provider wants it, or not even begun."""

    ACK = "ack"
    HAND_BACK = "hand_back"
    DEFER = "defer"
    PARK = "park"


class PauseCause(StrEnum):
    """Why a channel is paused."""

    CONFIGURATION = "configuration"
    OUTAGE = "outage"


ATTEMPTS: Final = Counter("ba_delivery_attempts_total", "Calls to the provider.", ["channel", "status", "reason"])
ATTEMPT_SECONDS: Final = Histogram(
    "ba_delivery_attempt_seconds",
    "How long a call to the provider took.",
    ["channel"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15),
)
ENDED: Final = Counter("ba_deliveries_total", "Deliveries that ended.", ["channel", "status", "reason"])
RETRIES: Final = Counter("ba_delivery_retries_total", "Further tries that were scheduled.", ["channel"])
SETTLED: Final = Counter("ba_delivery_messages_settled_total", "Messages settled with JetStream.", ["channel", "how"])
IN_FLIGHT: Final = Gauge("ba_deliveries_in_flight", "Deliveries held and not yet settled.", ["channel"])
DEAD_LETTERS: Final = Counter("ba_delivery_dead_letters_total", "Rows written to the DLQ.", ["channel", "reason"])
PAUSED: Final = Gauge(
    "ba_delivery_paused",
    "1 while the channel waits for its configuration to be mended, or for its provider to answer again.",
    ["channel", "cause"],
)
OLDEST_SECONDS: Final = Gauge(
    "ba_delivery_oldest_waiting_seconds", "Age of the oldest message of the channel in BA_DELIVER.", ["channel"]
)
UNRECORDED: Final = Counter("ba_delivery_rows_refused_total", "Records that the database can't hold.", ["channel"])


def initialise(channel: str) -> None:
    """Create every series of a channel."""
    for reason in ("", *Reason):
        for metric, statuses in ((ATTEMPTS, ("sent", "failed")), (ENDED, ("sent", "failed", "expired"))):
            for status in statuses:
                metric.labels(channel, status, reason)
    for reason in Reason:
        DEAD_LETTERS.labels(channel, reason)
    for how in Settled:
        SETTLED.labels(channel, how)
    for cause in PauseCause:
        PAUSED.labels(channel, cause)
    for plain in (ATTEMPT_SECONDS, RETRIES, IN_FLIGHT, UNRECORDED, OLDEST_SECONDS):
        plain.labels(channel)


def count_attempt(channel: str, outcome: Outcome, seconds: float) -> None:
    """Count one call to the provider."""
    ATTEMPT_SECONDS.labels(channel).observe(seconds)
    if isinstance(outcome, Delivered):
        ATTEMPTS.labels(channel, "sent", "").inc()
    else:
        ATTEMPTS.labels(channel, "failed", outcome.reason).inc()


def log_attempt(row: AttemptRow) -> None:
    """Write one wide line: the whole attempt, except the recipient's address."""
    event(
        log,
        logging.INFO,
        "delivery attempted",
        company_id=row.company_id,
        alert_id=row.alert_id,
        delivery_id=row.delivery_id,
        channel=row.channel,
        attempt=row.attempts,
        status=row.status,
        reason=row.reason,
        status_code=row.status_code,
        error=row.last_error,
        latency_ms=row.latency_ms,
        replay_of=row.replay_of,
    )
