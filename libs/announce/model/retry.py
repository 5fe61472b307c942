"""When to try again: a pure function of what happened, how often, for how long, and of chance."""

from dataclasses import dataclass
from enum import StrEnum

from announce.model.outcome import Failure, Transient


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waits start at `base_s` and double up to `cap_s`; all tries together stay within `budget_s`.

    `jitter` is the part of a wait, from 0 to 1, that chance may take off it. A provider that asks for more time than
    the budget has left gets it, the delivery going back to the stream meanwhile, up to `max_deferrals` times.
    """

    max_attempts: int
    base_s: float
    cap_s: float
    budget_s: float
    jitter: float = 0.0
    max_deferrals: int = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a delivery has come when a try has failed.

    `attempt` is the number of that try, from 1; `elapsed_s` the time since the first one began, or since the delivery
    came back from its last deferral.
    """

    attempt: int
    elapsed_s: float
    deferrals: int = 0


class Why(StrEnum):
    """Why there is no further try."""

    PERMANENT = "permanent"
    ATTEMPTS = "attempts"
    BUDGET = "budget"
    DEFERRALS = "deferrals"


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Try again after so many seconds."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class Defer:
    """Try again after so many seconds, too many to hold on to the delivery."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Don't try again."""

    why: Why


Decision = RetryAfter | Defer | GiveUp


def decide(policy: RetryPolicy, failure: Failure, progress: Progress, random: float) -> Decision:
    """Decide what follows a failed try; `random` is from [0, 1)."""
    if not isinstance(failure, Transient):
        return GiveUp(Why.PERMANENT)
    if progress.attempt >= policy.max_attempts:
        return GiveUp(Why.ATTEMPTS)
    left_s = policy.budget_s - progress.elapsed_s
    asked_s = failure.retry_after_s or 0.0
    if asked_s > left_s:
        return Defer(asked_s) if progress.deferrals < policy.max_deferrals else GiveUp(Why.DEFERRALS)
    wait_s = max(_backoff_s(policy, progress.attempt, random), asked_s)
    return RetryAfter(wait_s) if wait_s <= left_s else GiveUp(Why.BUDGET)


def _backoff_s(policy: RetryPolicy, attempt: int, random: float) -> float:
    # Capping the exponent keeps the power finite however many attempts are allowed.
    wait_s = min(policy.base_s * 2.0 ** min(attempt - 1, 62), policy.cap_s)
    return wait_s * (1 - policy.jitter * random)
