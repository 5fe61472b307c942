from hypothesis import given
from hypothesis import strategies as st

from ingestd.rate import CompanyRates, TokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_second_s_worth_may_come_in_a_burst_and_then_so_many_a_second() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock)
    assert [bucket.take(1) for _ in range(10)] == [0.0] * 10
    assert bucket.take(1) == 0.1
    clock.now += 0.1
    assert bucket.take(1) == 0.0
    clock.now += 100
    assert bucket.take(10) == 0.0
    assert bucket.take(1) > 0


def test_a_batch_larger_than_the_burst_passes_and_is_paid_for_afterwards() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock)
    assert bucket.take(30) == 0.0
    assert bucket.take(1) == 2.1
    clock.now += 2.1
    assert bucket.take(1) == 0.0


def test_less_than_one_alert_a_second_is_a_rate_too() -> None:
    clock = Clock()
    bucket = TokenBucket(0.5, clock)
    assert bucket.take(1) == 0.0
    assert bucket.take(1) == 2.0


@given(st.floats(0.1, 1000), st.lists(st.tuples(st.integers(1, 50), st.floats(0, 2)), max_size=60))
def test_in_the_long_run_no_more_passes_than_the_rate(rate_per_s: float, offers: list[tuple[int, float]]) -> None:
    clock = Clock()
    bucket = TokenBucket(rate_per_s, clock)
    passed, largest = 0, 1
    for count, pause_s in offers:
        clock.now += pause_s
        if bucket.take(count) == 0:
            passed += count
            largest = max(largest, count)
    assert passed <= max(rate_per_s, 1) + clock.now * rate_per_s + largest + 1e-6


def test_companies_do_not_share_their_rates() -> None:
    clock = Clock()
    rates = CompanyRates(2, clock)
    assert rates.take("a", None, 2) == 0
    assert rates.take("a", None, 1) == 1
    assert rates.take("b", None, 1) == 0
    assert rates.take("c", 100, 100) == 0


def test_a_company_s_new_rate_counts_at_once() -> None:
    clock = Clock()
    rates = CompanyRates(1, clock)
    assert rates.take("a", None, 1) == 0
    assert rates.take("a", None, 1) == 1
    assert rates.take("a", 5, 5) == 0
    assert rates.take("a", 5, 1) == 1
