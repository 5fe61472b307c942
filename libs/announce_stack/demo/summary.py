"""The table of what was sent and what became of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from announce_stack.demo.console import Console, Style
from announce_stack.demo.scenario import SUBSCRIPTIONS
from announce_stack.demo.sending import End, Result, Status
from announce_stack.demo.table import Cell, Column, render
from announce_stack.demo.verdict import faults

COLUMNS: Final = (
    Column(""),
    Column("Alert", wraps=True),
    Column("By"),
    Column("Answer", wraps=True),
    Column("ms", align=">"),
    Column("What became of it", wraps=True),
    Column("ms", align=">"),
)
STYLES: Final = {Status.SENT: Style.GREEN, Status.EXPIRED: Style.YELLOW, Status.DEAD: Style.RED}


def show(results: Sequence[Result], console: Console) -> bool:
    """Shows the table, and below it what went otherwise than it should.

    Returns:
        whether all went as it should.
    """
    addresses = {end.address for result in results for end in result.sending.ends if end.address}
    wrong = [faults(result, addresses) for result in results]
    rows = [_row(result, well=not found) for result, found in zip(results, wrong, strict=True)]
    console.heading("What was sent, and what became of it")
    for line in render(COLUMNS, rows, console.width, console.paint):
        console.line(line)
    for note in _notes():
        console.line(note, Style.DIM)
    console.line()
    _judge(results, wrong, console)
    return not any(wrong)


def _row(result: Result, *, well: bool) -> list[Cell]:
    sending, answer, story = result
    return [
        Cell("ok", Style.GREEN) if well else Cell("NO", Style.RED),
        Cell(sending.what),
        Cell(sending.how),
        Cell(answer.text),
        Cell(f"{answer.took_ms:.0f}"),
        Cell(_outcome(result), _style(result)),
        Cell("" if sending.repeats or not story.calls else f"{_arrived_ms(result):.0f}"),
    ]


def _outcome(result: Result) -> str:
    """In words: how many deliveries ended in which way."""
    if not result.story.ended:
        return "still under way"
    ends = Counter(delivery.end._replace(channel="", address=None) for delivery in result.story.deliveries)
    parts = [(count, _words(end)) for end, count in ends.items()]
    refused = len(result.sending.alerts) - len(result.answer.accepted)
    if refused and not result.sending.repeats:
        parts.append((refused, "refused"))
    # What happened once and nothing else needs no count.
    said = "; ".join(words if parts == [(1, words)] else f"{count} {words}" for count, words in parts)
    return f"dropped, still {said}" if result.sending.repeats else said


def _words(end: End) -> str:
    match end.status:
        case Status.SENT:
            return "sent" if end.tries == 1 else f"sent, {_tries(end.tries)}"
        case Status.EXPIRED:
            return f"expired, {_tries(end.tries)}"
        case Status.DEAD:
            return f"dead letter, {_tries(end.tries)}: {end.reason}"


def _tries(count: int) -> str:
    return "not tried" if count == 0 else "1 try" if count == 1 else f"{count} tries"


def _style(result: Result) -> Style | None:
    if result.sending.repeats or not result.story.deliveries:
        return Style.DIM
    statuses = {delivery.end.status for delivery in result.story.deliveries}
    return next(style for status, style in reversed(STYLES.items()) if status in statuses)


def _arrived_ms(result: Result) -> float:
    return (max(call.came_us for call in result.story.calls) - result.answer.sent_us) / 1000


def _notes() -> Iterator[str]:
    yield "ms: from the sending to the answer, and to the last call that reached a provider."
    yield f"Of the {len(SUBSCRIPTIONS)} subscriptions an alert reaches those that its severity and tags fit."
    yield "The first alert also waits for FCM's access token, which is kept from then on."


def _judge(results: Sequence[Result], wrong: Sequence[Sequence[str]], console: Console) -> None:
    for number, (result, found) in enumerate(zip(results, wrong, strict=True), 1):
        for fault in found:
            console.line(f"Line {number}, {result.sending.what} by {result.sending.how}: {fault}.", Style.RED)
    failed = sum(map(bool, wrong))
    if failed:
        console.line(f"{failed} of {len(results)} did not go as they should.", Style.RED)
    else:
        console.line(f"All {len(results)} went as they should.", Style.GREEN)
