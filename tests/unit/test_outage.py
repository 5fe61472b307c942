import pytest

from announce.delivery.outage import Outage, unanswered
from announce.model.outcome import Delivered, Outcome, Rejected, Transient
from announce.model.reason import Reason


def test_as_many_deliveries_without_an_answer_are_an_outage() -> None:
    outage = Outage(3)
    assert [outage.failed("acme", number, 1.0, 1.5) for number in range(3)] == [False, False, True]


def test_one_delivery_that_fails_again_and_again_is_none() -> None:
    outage = Outage(3)
    assert not any(outage.failed("acme", 1, float(at), float(at)) for at in range(100))


def test_an_answer_starts_the_count_anew() -> None:
    outage = Outage(3)
    for number in range(2):
        outage.failed("acme", number, 1.0, 1.5)
    outage.answered(2.0)
    assert [outage.failed("acme", number, 3.0, 4.0) for number in range(3)] == [False, False, True]


def test_calls_that_began_before_the_last_answer_say_nothing() -> None:
    outage = Outage(3)
    outage.answered(5.0)
    assert not any(outage.failed("hanging", number, 4.9, 14.9) for number in range(1000))


def test_many_that_fail_fast_between_two_answers_are_none() -> None:
    outage = Outage(3)
    outage.answered(5.0)
    assert not any(outage.failed("acme", number, 5.5, 6.5) for number in range(1000))
    assert outage.failed("acme", 1000, 6.5, 7.0)


def test_it_knows_whose_calls_were_without_an_answer() -> None:
    outage = Outage(1)
    assert outage.failed("acme", 1, 1.0, 1.0)
    assert outage.affects("acme")
    assert not outage.affects("other")
    outage.answered(2.0)
    assert not outage.affects("acme")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Transient(reason=Reason.TIMEOUT, detail=""), True),
        (Transient(reason=Reason.CONNECTION_FAILED, detail=""), True),
        (Transient(reason=Reason.UNEXPECTED_REPLY, detail=""), True),
        (Transient(reason=Reason.PROVIDER_ERROR, detail=""), True),
        (Transient(reason=Reason.RATE_LIMITED, detail=""), False),
        (Rejected(reason=Reason.REJECTED, detail=""), False),
        (Delivered(), False),
    ],
)
def test_what_counts_as_no_answer(outcome: Outcome, *, expected: bool) -> None:
    assert unanswered(outcome) is expected
