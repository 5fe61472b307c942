from collections.abc import Callable

import pytest

from announce.bus.consumer import Delivery
from announce.delivery.parking import MAX_REMEMBERED, Parking
from tests import messages


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def message(company_id: str, seq: int, num_delivered: int = 1) -> Delivery:
    return messages.message(f"ba.deliver.fcm.{company_id}", seq=seq, num_delivered=num_delivered)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def parking(clock: Clock) -> Callable[[int], Parking]:
    def make(places: int) -> Parking:
        lot = Parking(places, clock=clock)
        lot.waiting(["large", "small"])
        return lot

    return make


async def settle(delivery: Delivery) -> None:
    await delivery.ack()


def fill(parking: Parking, company_id: str = "large", first: int = 0) -> list[Delivery]:
    """Let a company bring messages until one is parked; return those that are held."""
    held: list[Delivery] = []
    while parking.admit(delivery := message(company_id, first + len(held))) is None:
        held.append(delivery)
    return held


def test_a_company_holds_half_of_the_places_and_another_finds_room(parking: Callable[[int], Parking]) -> None:
    lot = parking(100)
    assert len(fill(lot)) == 50
    assert lot.admit(message("small", 1000)) is None


async def test_what_ends_makes_room(parking: Callable[[int], Parking]) -> None:
    lot = parking(100)
    held = fill(lot)
    parked = message("large", 1000)
    assert lot.admit(parked)
    await settle(parked)
    assert lot.admit(message("large", 1001))
    await settle(held[0])
    assert lot.admit(message("large", 1002)) is None


async def test_what_is_parked_comes_back_no_faster_than_the_company_moves(
    parking: Callable[[int], Parking], clock: Clock
) -> None:
    lot = parking(100)
    held = fill(lot)
    # 40 end, others take their places, and nothing more ends.
    clock.now += 2
    for number, delivery in enumerate(held[:40]):
        await settle(delivery)
        assert lot.admit(message("large", 1000 + number)) is None
    for number in range(4):
        clock.now += 2
        assert lot.admit(message("large", 1100 + number))
    waits = [lot.admit(message("large", 2000 + number)) or 0.0 for number in range(50_000)]
    # At its own pace it would take for ever; at the least rate, at which they are looked at anyway, 250 s.
    assert 0.75 * 250 <= waits[-1] <= 251
    returns = sum(100 <= wait < 110 for wait in waits)
    assert returns <= 10 * 200 * 1.35


def test_a_delivery_that_was_only_parked_is_known_to_be_untouched(parking: Callable[[int], Parking]) -> None:
    lot = parking(2)
    assert lot.admit(message("large", 1)) is None
    assert lot.untouched(message("large", 1))
    assert lot.admit(message("large", 2, 1))
    assert lot.admit(message("large", 2, 2))
    assert lot.untouched(message("large", 2, 3))
    assert not lot.untouched(message("large", 2, 3))


def test_one_that_somebody_else_had_meanwhile_is_not(parking: Callable[[int], Parking]) -> None:
    lot = parking(2)
    fill(lot)
    assert lot.admit(message("large", 2, 1))
    assert not lot.untouched(message("large", 2, 3))
    assert lot.admit(message("large", 3, 2))
    assert not lot.untouched(message("large", 3, 3))


def test_it_remembers_no_more_than_so_many(parking: Callable[[int], Parking]) -> None:
    lot = parking(2)
    fill(lot)
    for seq in range(10, MAX_REMEMBERED + 20):
        lot.admit(message("large", seq))
    assert not lot.untouched(message("large", 10, 2))
    assert lot.untouched(message("large", MAX_REMEMBERED + 19, 2))


def test_a_company_that_is_alone_has_its_share_asked_for_and_none_parked(clock: Clock) -> None:
    lot = Parking(100, clock=clock)
    assert lot.limit == 50
    assert [lot.admit(message("large", seq)) for seq in range(100)] == [None] * 100
    assert lot.crowded
    lot.waiting(["large", "small"])
    assert lot.limit == 100
    assert not lot.crowded
    assert lot.admit(message("large", 101))
    clock.now += 700
    lot.waiting(["large"])
    assert lot.limit == 50
