from pydantic import Field
from pydantic_settings import SettingsConfigDict

from announce.model.retry import RetryPolicy
from announce.runtime.settings import Settings


class DeliverySettings(Settings):
    """How a channel's worker works; the same for every channel."""

    model_config = SettingsConfigDict(env_prefix="BA_DELIVERD_")

    max_attempts: int = Field(10, ge=1, le=1000, description="Tries in all, the first included.")
    retry_base_ms: int = Field(
        100, ge=0, description="Milliseconds before the second try; doubles before each further one."
    )
    retry_max_ms: int = Field(2000, ge=0, description="Most milliseconds of one wait.")
    retry_budget_ms: int = Field(
        30_000,
        ge=0,
        description="Wall clock in milliseconds for all tries: the last one begins before it has passed. With the "
        "defaults a target that always fails has waited 100+200+400+800+1600+4*2000 = 11,100 ms after 10 tries.",
    )
    retry_jitter: float = Field(
        0, ge=0, le=1, description="Part of a wait that chance may take off it, so that crowds spread; 0 takes none."
    )
    max_deferrals: int = Field(
        3,
        ge=0,
        le=100,
        description="How often a delivery goes back to JetStream because its provider wants a longer wait than the "
        "budget has left; after that it ends in the dead-letter queue.",
    )
    retry_share: float = Field(
        0.2,
        ge=0,
        le=100,
        description="Retries for each first try that a process makes, besides those that are free; what comes beyond "
        "waits in the stream.",
    )
    retry_free_per_s: float = Field(
        100, gt=0, description="Retries a second that a process makes however little traffic there is."
    )
    outage_after: int = Field(
        100,
        ge=1,
        description="Deliveries in a row without an answer from the provider that make an outage: the channel then "
        "pauses instead of filling the dead-letter queue.",
    )
    concurrency: int = Field(
        256,
        ge=1,
        le=10_000,
        description="Calls to the provider at once: at least rate times the provider's latency. One company gets at "
        "most three quarters of them.",
    )
    max_in_flight: int = Field(
        2048,
        ge=1,
        le=20_000,
        description="Deliveries that one process holds at once, those between two tries included; one company's at "
        "most half of them. More of a company's wait in the stream, and others' are looked for behind them.",
    )

    def policy(self) -> RetryPolicy:
        """Return the retry policy that these settings describe."""
        return RetryPolicy(
            max_attempts=self.max_attempts,
            base_s=self.retry_base_ms / 1000,
            cap_s=self.retry_max_ms / 1000,
            budget_s=self.retry_budget_ms / 1000,
            jitter=self.retry_jitter,
            max_deferrals=self.max_deferrals,
        )
