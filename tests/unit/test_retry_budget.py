from announce.delivery.retry_budget import RetryBudget


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_one_failing_target_needs_is_free() -> None:
    budget = RetryBudget(0.0, 100, Clock())
    assert [budget.retry() for _ in range(1000)] == [0.0] * 1000
    assert budget.retry() > 0


def test_beyond_that_retries_are_put_off_to_the_rate_that_is_free() -> None:
    clock = Clock()
    budget = RetryBudget(0.0, 100, clock)
    for _ in range(1000):
        budget.retry()
    assert [budget.retry() for _ in range(100)][-1] == 1.0
    clock.now = 2.0
    assert budget.retry() == 0.0


def test_first_tries_pay_in_their_share() -> None:
    clock = Clock()
    budget = RetryBudget(0.2, 100, clock)
    for _ in range(1000):
        budget.retry()
    for _ in range(500):
        budget.first_try()
    assert [budget.retry() for _ in range(100)] == [0.0] * 100
    assert budget.retry() > 0


def test_nothing_is_saved_beyond_what_it_holds() -> None:
    clock = Clock()
    budget = RetryBudget(0.2, 100, clock)
    for _ in range(1_000_000):
        budget.first_try()
    clock.now = 1e6
    assert [budget.retry() for _ in range(1001)][-1] > 0
