"""What Prometheus hears of a channel. Every combination of labels exists from the start, at zero."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from announce.model.outcome import Delivered, Outcome
from announce.model.reason import Reason

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
PAUSED: Final = Gauge(
    "ba_delivery_paused", "1 while the channel waits for its configuration to be mended.", ["channel"]
)
UNRECORDED: Final = Counter("ba_delivery_rows_refused_total", "Records that the database can't hold.", ["channel"])


def initialise(channel: str) -> None:
    """Create every series of a channel."""
    for reason in ("", *Reason):
        for metric, statuses in ((ATTEMPTS, ("sent", "failed")), (ENDED, ("sent", "failed", "expired"))):
            for status in statuses:
                metric.labels(channel, status, reason)
    for how in ("ack", "hand_back"):
        SETTLED.labels(channel, how)
    for plain in (ATTEMPT_SECONDS, RETRIES, IN_FLIGHT, PAUSED, UNRECORDED):
        plain.labels(channel)


def count_attempt(channel: str, outcome: Outcome, seconds: float) -> None:
    """Count one call to the provider."""
    ATTEMPT_SECONDS.labels(channel).observe(seconds)
    if isinstance(outcome, Delivered):
        ATTEMPTS.labels(channel, "sent", "").inc()
    else:
        ATTEMPTS.labels(channel, "failed", outcome.reason).inc()
