"""What Prometheus hears of ingest. Every combination of labels exists from the start, at zero."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from announce.model.target import CHANNELS
from ingestd.arrival import REASONS
from ingestd.problems import Kind

HTTP: Final = "http"
NATS: Final = "nats"
ACCEPTED: Final = "accepted"
DUPLICATE: Final = "duplicate"

ALERTS: Final = Counter("ba_ingest_alerts_total", "Alerts that were offered.", ["source", "result"])
DUPLICATES: Final = Counter(
    "ba_ingest_duplicates_total",
    "Alerts that came again: told in the HTTP answer, or dropped before fan-out.",
    ["line"],
)
REQUEST_SECONDS: Final = Histogram(
    "ba_ingest_request_seconds",
    "How long a request took, from its headers to its answer.",
    ["route"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
UNDER_WAY: Final = Gauge("ba_ingest_requests_under_way", "Requests that haven't been answered yet.")
HELD: Final = Gauge("ba_ingest_alerts_held", "Alerts taken from JetStream whose fan-out hasn't ended.")
ENVELOPES: Final = Counter("ba_fanout_envelopes_total", "Deliveries that fan-out has put into JetStream.", ["channel"])
FANOUT_SECONDS: Final = Histogram(
    "ba_fanout_seconds",
    "From JetStream's taking the alert to its last delivery's being in JetStream.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
UNREADABLE: Final = Counter("ba_fanout_unreadable_addresses_total", "Subscriptions left out of a fan-out.")
KEYRING_LOADED: Final = Gauge("ba_ingest_keyring_loaded_timestamp_seconds", "When companies and keys were last loaded.")

ANSWERED: Final = "answered"
DROPPED: Final = "dropped"


def initialise() -> None:
    """Create every series."""
    for result in (ACCEPTED, DUPLICATE, *Kind):
        ALERTS.labels(HTTP, result)
    for result in (ACCEPTED, DUPLICATE, *REASONS):
        ALERTS.labels(NATS, result)
    for line in (ANSWERED, DROPPED):
        DUPLICATES.labels(line)
    for channel in CHANNELS:
        ENVELOPES.labels(channel)
