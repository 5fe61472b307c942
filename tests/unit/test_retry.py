import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.outcome import ChannelFault, CredentialRefused, Failure, Rejected, TargetGone, Transient
from announce.model.reason import Reason
from announce.model.retry import Defer, GiveUp, Progress, RetryAfter, RetryPolicy, Why, decide

DEFAULTS = RetryPolicy(max_attempts=10, base_s=0.1, cap_s=2.0, budget_s=30.0)
FAILED = Transient(reason=Reason.PROVIDER_ERROR, detail="500")


def waits(policy: RetryPolicy, failure: Failure = FAILED, random: float = 0.0) -> tuple[list[float], Why]:
    """Return every wait of a target that fails at once each time, and why it ends."""
    taken: list[float] = []
    for attempt in range(1, 10_000):
        match decide(policy, failure, Progress(attempt, sum(taken)), random):
            case RetryAfter(wait_s):
                taken.append(wait_s)
            case GiveUp(why):
                return taken, why
            case Defer():
                raise AssertionError("nobody asked for a wait")
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
    assert decide(DEFAULTS, failure, Progress(1, 0), 0) == RetryAfter(7)
    shorter = Transient(reason=Reason.RATE_LIMITED, detail="429", retry_after_s=0.5)
    assert decide(DEFAULTS, shorter, Progress(5, 0), 0) == RetryAfter(1.6)


def test_a_wait_that_the_provider_wants_beyond_the_budget_defers_so_often_and_no_further() -> None:
    failure = Transient(reason=Reason.RATE_LIMITED, detail="429", retry_after_s=60)
    for deferrals in range(3):
        assert decide(DEFAULTS, failure, Progress(1, 0, deferrals), 0) == Defer(60)
    assert decide(DEFAULTS, failure, Progress(1, 0, 3), 0) == GiveUp(Why.DEFERRALS)
    assert decide(DEFAULTS, failure, Progress(10, 0), 0) == GiveUp(Why.ATTEMPTS)
    soon = Transient(reason=Reason.RATE_LIMITED, detail="429", retry_after_s=7)
    assert decide(DEFAULTS, soon, Progress(2, 24), 0) == Defer(7)


def test_the_waits_of_the_literal_specification() -> None:
    taken, why = waits(RetryPolicy(max_attempts=10, base_s=1, cap_s=60, budget_s=1200))
    assert taken == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert sum(taken) == 243
    assert why is Why.ATTEMPTS


def test_jitter_takes_up_to_its_part_off_a_wait() -> None:
    policy = RetryPolicy(max_attempts=10, base_s=0.1, cap_s=2.0, budget_s=30.0, jitter=0.5)
    assert waits(policy, random=0.0) == waits(DEFAULTS)
    assert sum(waits(policy, random=1.0)[0]) == pytest.approx(11.1 / 2)


@given(
    st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 2000),
        base_s=st.floats(0, 1000),
        cap_s=st.floats(0.001, 1000),
        budget_s=st.floats(0, 500),
        jitter=st.floats(0, 1),
    ),
    st.floats(0, 1, exclude_max=True),
)
def test_every_policy_ends_within_its_bounds(policy: RetryPolicy, random: float) -> None:
    taken, _ = waits(policy, random=random)
    assert len(taken) < policy.max_attempts
    assert sum(taken) <= policy.budget_s * (1 + 1e-9)
    assert all(0 <= wait <= policy.cap_s for wait in taken)
