import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.model.identity import delivery_id, row_id, row_id_span

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001 - the zone is set right after


@given(MOMENTS)
def test_a_row_id_tells_the_millisecond_of_its_row(moment: datetime) -> None:
    start, end = row_id_span(row_id(moment))
    assert start <= moment < end
    assert end - start == timedelta(milliseconds=1)


@given(MOMENTS, st.integers(1, 10**9))
def test_row_ids_sort_by_time_to_the_microsecond(moment: datetime, later_us: int) -> None:
    assert row_id(moment) < row_id(moment + timedelta(microseconds=later_us))


def test_a_row_id_is_a_version_7_uuid() -> None:
    made = row_id(datetime.now(UTC))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_an_id_without_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="version 7"):
        row_id_span(uuid.uuid4())


def test_a_delivery_id_depends_on_each_part_and_on_nothing_else() -> None:
    parts = ("acme", "a-1", "fcm", "token")
    assert delivery_id(*parts) == delivery_id(*parts)
    others = {
        delivery_id(*(other if place == at else part for at, part in enumerate(parts)))
        for place, other in enumerate(("b", "a-2", "telegram", "t"))
    }
    assert len(others | {delivery_id(*parts)}) == 5
