from pydantic import Field
from pydantic_settings import SettingsConfigDict

from announce.runtime.settings import Settings
from announce.runtime.web import ListenAddress


class IngestdSettings(Settings):
    """How alerts are taken in and fanned out."""

    model_config = SettingsConfigDict(env_prefix="BA_INGESTD_")

    listen: ListenAddress = Field("127.0.0.1:8080", description="host:port of the API, health and metrics.")
    dedupe_window_s: float = Field(
        86_400, ge=1, description="Seconds in which a second alert with the same company and alert_id is a duplicate."
    )
    company_rate_per_s: float = Field(
        10_000,
        gt=0,
        description="Alerts a second that each process takes by HTTP from a company that has no rate of its own; "
        "as many again may come in a burst of one second.",
    )
    body_timeout_s: float = Field(10, gt=0, description="Seconds that a client has to send a request's body.")
    batches_at_once: int = Field(
        16, ge=1, description="Batch requests that are read and taken in at once, of up to 8 MiB each; others wait."
    )
    lookup_timeout_ms: int = Field(
        250,
        ge=1,
        description="Most milliseconds that an answer waits for the database to tell a duplicate.",
    )
    keyring_reload_s: float = Field(
        30, gt=0, description="Seconds between two loads of companies and keys; changes are heard of at once anyway."
    )
    max_alerts_held: int = Field(
        512, ge=8, le=20_000, description="Alerts from JetStream that one process works on at once."
    )
    page_size: int = Field(1000, ge=1, le=10_000, description="Subscriptions that a fan-out reads at once.")
    pages_in_flight: int = Field(
        4, ge=1, le=64, description="Pages of one fan-out that are being published at once, while the next is read."
    )
    large_fanouts: int = Field(
        2,
        ge=1,
        description="Fan-outs to 200 subscriptions or more that run at once; others never wait for them.",
    )
