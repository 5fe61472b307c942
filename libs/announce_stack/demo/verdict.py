"""Whether each alert went as it should."""

from collections import Counter
from collections.abc import Collection, Iterator

from announce_stack.demo.sending import Result, Status


def faults(result: Result, addresses: Collection[str]) -> list[str]:
    """What went otherwise than it should, each in one sentence; nothing when all went well.

    Args:
        result: what was sent, and what came of it.
        addresses: those that the demo knows; what others get, who have subscribed since, is no fault.
    """
    return [*_answer(result), *_ends(result, addresses), *_calls(result)]


def _answer(result: Result) -> Iterator[str]:
    expected, given = result.sending.answer, result.answer.text
    if given != expected:
        yield f'the answer was "{given}", expected was "{expected}"'


def _ends(result: Result, addresses: Collection[str]) -> Iterator[str]:
    if not result.story.ended:
        yield "it had not come to its end when the demo stopped waiting"
    expected = Counter(result.sending.ends)
    seen = Counter(delivery.end for delivery in result.story.deliveries)
    for end in expected - seen:
        yield f"missing: {end}"
    for end in seen - expected:
        if end.address is None or end.address in addresses:
            yield f"not expected: {end}"


def _calls(result: Result) -> Iterator[str]:
    accepted = Counter(call.delivery_id for call in result.story.calls if call.accepted)
    for delivery in result.story.deliveries:
        times = accepted[delivery.delivery_id or ""]
        due = delivery.end.status is Status.SENT
        if times != due:
            yield f"the provider took it {times} times instead of {int(due)}: {delivery.end}"
