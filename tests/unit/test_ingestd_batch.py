import pytest
from hypothesis import given
from hypothesis import strategies as st

from announce.runtime.problem import Problem
from ingestd.acceptance import Verdict
from ingestd.batch import (
    MAX_LINES,
    SLICE_BYTES,
    SLICE_LINES,
    Line,
    LineResult,
    Taken,
    encode_results,
    slices,
    split_lines,
)
from ingestd.problems import alert_id_reused


def test_lines_are_counted_from_one_and_blank_ones_at_the_end_are_none() -> None:
    assert split_lines(b"a\nb\n\n \r\n") == [Line(1, b"a"), Line(2, b"b")]
    assert split_lines(b"a\n\nb") == [Line(1, b"a"), Line(2, b""), Line(3, b"b")]


@pytest.mark.parametrize("body", [b"", b"\n", b" \r\n\t\n"])
def test_a_batch_without_lines_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as refused:
        split_lines(body)
    assert (refused.value.status, refused.value.kind) == (400, "empty-batch")


def test_a_batch_has_at_most_a_thousand_lines() -> None:
    assert len(split_lines(b"x\n" * MAX_LINES)) == MAX_LINES
    with pytest.raises(Problem) as refused:
        split_lines(b"x\n" * MAX_LINES + b"x")
    assert (refused.value.status, refused.value.kind) == (413, "too-large")


@given(st.lists(st.integers(0, 2 * SLICE_BYTES), min_size=1, max_size=30))
def test_portions_hold_every_line_in_order_and_no_more_than_they_may(sizes: list[int]) -> None:
    lines = [Line(number, bytes(size)) for number, size in enumerate(sizes)]
    portions = list(slices(lines))
    assert [line for portion in portions for line in portion] == lines
    for portion in portions:
        assert len(portion) == 1 or sum(len(line.raw) for line in portion) <= SLICE_BYTES


def test_portions_have_a_bounded_number_of_lines() -> None:
    lines = [Line(number, b"") for number in range(2 * SLICE_LINES + 1)]
    assert [len(portion) for portion in slices(lines)] == [SLICE_LINES, SLICE_LINES, 1]


def test_each_line_has_a_result_of_its_own() -> None:
    results: list[LineResult] = [Taken("a", Verdict.ACCEPTED), alert_id_reused(), Taken("b", Verdict.DUPLICATE)]
    first, second, third = encode_results(results).splitlines()
    assert first == b'{"line":1,"alert_id":"a","status":"accepted"}'
    assert second.startswith(
        b'{"line":2,"status":"refused","problem":{"type":"urn:broad-announce:problem:alert-id-reused"'
    )
    assert third == b'{"line":3,"alert_id":"b","status":"duplicate"}'
