"""When to try again: a pure function of what happened, how often, and for how long."""

from dataclasses import dataclass
from enum import StrEnum

from announce.model.outcome import Failure, Transient


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waits start at `base_s` and double up to `cap_s`; all tries together stay within `budget_s`."""

    max_attempts: int
    base_s: float
    cap_s: float
    budget_s: float


class Why(StrEnum):
    """Why there is no further try."""

    PERMANENT = "permanent"
    ATTEMPTS = "attempts"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Try again after so many seconds."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Don't try again."""

    why: Why


Decision = RetryAfter | GiveUp


def decide(policy: RetryPolicy, failure: Failure, attempt: int, elapsed_s: float) -> Decision:
    """Decide what follows the failed try number `attempt` (from 1), `elapsed_s` after the first one began."""
    if not isinstance(failure, Transient):
        return GiveUp(Why.PERMANENT)
    if attempt >= policy.max_attempts:
        return GiveUp(Why.ATTEMPTS)
    # Capping the exponent keeps the power finite however many attempts are allowed.
    wait_s = min(policy.base_s * 2 ** min(attempt - 1, 62), policy.cap_s)
    wait_s = max(wait_s, failure.retry_after_s or 0.0)
    return GiveUp(Why.BUDGET) if elapsed_s + wait_s > policy.budget_s else RetryAfter(wait_s)
