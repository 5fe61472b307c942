import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.outcome import ChannelFault, CredentialRefused, Failure, Rejected, TargetGone, Transient
from announce.model.reason import Reason
from announce.model.retry import GiveUp, RetryAfter, RetryPolicy, Why, decide

DEFAULTS = RetryPolicy(max_attempts=10, base_s=0.1, cap_s=2.0, budget_s=30.0)
FAILED = Transient(reason=Reason.PROVIDER_ERROR, detail="500")


def waits(policy: RetryPolicy, failure: Failure = FAILED) -> tuple[list[float], Why]:
    """Return every wait of a target that fails at once each time, and why it ends."""
    taken: list[float] = []
    for attempt in range(1, 10_000):
        match decide(policy, failure, attempt, sum(taken)):
            case RetryAfter(wait_s):
                taken.append(wait_s)
            case GiveUp(why):
                return taken, why
    raise AssertionError("never ends")


def test_the_defaults_wait_nine_times_and_11_1_seconds_in_all() -> None:
    taken, why = waits(DEFAULTS)
    assert taken == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 2, 2])
    assert sum(taken) == pytest.approx(11.1)
    assert why is Why.ATTEMPTS


def test_a_wait_that_would_pass_the_budget_is_not_begun() -> None:
    taken, why = waits(RetryPolicy(max_attempts=10, base_s=1, cap_s=60, budget_s=10))
    assert taken == [1, 2, 4]
    assert why is Why.BUDGET


@pytest.mark.parametrize("kind", [Rejected, TargetGone, ChannelFault, CredentialRefused])
def test_what_is_permanent_stops_at_once(kind: type[Rejected | TargetGone | ChannelFault | CredentialRefused]) -> None:
    assert waits(DEFAULTS, kind(reason=Reason.REJECTED, detail="")) == ([], Why.PERMANENT)


def test_the_provider_s_own_wait_is_obeyed_when_it_is_longer() -> None:
    failure = Transient(reason=Reason.RATE_LIMITED, detail="429", retry_after_s=7)
    assert decide(DEFAULTS, failure, 1, 0) == RetryAfter(7)
    assert decide(DEFAULTS, failure, 1, 24) == GiveUp(Why.BUDGET)


@given(
    st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 2000),
        base_s=st.floats(0, 1000),
        cap_s=st.floats(0.001, 1000),
        budget_s=st.floats(0, 500),
    )
)
def test_every_policy_ends_within_its_bounds(policy: RetryPolicy) -> None:
    taken, _ = waits(policy)
    assert len(taken) < policy.max_attempts
    assert sum(taken) <= policy.budget_s * (1 + 1e-9)
    assert all(0 <= wait <= policy.cap_s for wait in taken)
