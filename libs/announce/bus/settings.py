from pydantic import Field, SecretStr

from announce.runtime.settings import Settings


class BusSettings(Settings):
    """How a service reaches NATS."""

    nats_url: SecretStr = Field(
        SecretStr("nats://127.0.0.1:4222"), description="nats://user:password@host:port, several separated by commas."
    )
    nats_ack_wait_s: float = Field(
        30,
        ge=1,
        description="Seconds after which JetStream gives a message to somebody else when its holder has said nothing; "
        "a holder at work says something every third of it.",
    )


class StreamSettings(BusSettings):
    """What the streams are created with; read by `python -m announce.bus.setup` alone."""

    nats_replicas: int = Field(1, ge=1, le=5, description="Copies of each stream in a cluster.")
    nats_alerts_max_bytes: int = Field(
        1 << 30, ge=1 << 20, description="Size of BA_ALERTS in bytes; when it is full, ingest answers 503."
    )
    nats_deliver_max_bytes: int = Field(
        4 << 30, ge=1 << 20, description="Size of BA_DELIVER in bytes; when it is full, fan-out waits."
    )
    nats_outcomes_max_bytes: int = Field(1 << 30, ge=1 << 20, description="Size of BA_OUTCOMES in bytes.")
    nats_events_max_bytes: int = Field(1 << 29, ge=1 << 20, description="Size of BA_EVENTS in bytes.")
