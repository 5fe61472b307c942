import io

import pytest

from announce_stack.demo import summary
from announce_stack.demo.console import Console
from announce_stack.demo.history import unfinished
from announce_stack.demo.sending import Answer, Call, Delivery, End, How, Result, Sending, Status, Story
from announce_stack.demo.verdict import faults

PHONE = End("fcm", "phone", Status.SENT, 1)
CHAT = End("telegram", "5", Status.SENT, 1)
DEAD = End("fcm", "phone", Status.DEAD, 1, "target_gone")
STRANGER = End("fcm", "somebody-else", Status.SENT, 1)
ADDRESSES = {"phone", "5"}


def result(
    *ends: End, answer: str = "202 accepted", accepted_times: int = 1, ended: bool = True, expected: End = PHONE
) -> Result:
    sending = Sending(what="one", how=How.HTTP, alerts=[{"alert_id": "a"}], answer="202 accepted", ends=[expected])
    deliveries = [Delivery("a", f"d{number}", end) for number, end in enumerate(ends)]
    sent = [delivery.delivery_id or "" for delivery in deliveries if delivery.end.status is Status.SENT]
    refused = [Call(delivery.delivery_id or "", accepted=False, came_us=9_000) for delivery in deliveries]
    calls = [Call(each, accepted=True, came_us=14_000) for each in sent * accepted_times]
    return Result(
        sending, Answer(answer, frozenset("a"), sent_us=4_000, took_ms=3.2), Story(deliveries, refused + calls, ended)
    )


def test_nothing_is_wrong_when_all_is_as_expected() -> None:
    assert faults(result(PHONE), ADDRESSES) == []
    assert faults(result(DEAD, expected=DEAD), ADDRESSES) == []


def test_somebody_who_has_subscribed_since_is_no_fault() -> None:
    assert faults(result(PHONE, STRANGER), ADDRESSES) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (result(PHONE, answer="503 unavailable"), ['the answer was "503 unavailable", expected was "202 accepted"']),
        (result(), ["missing: fcm phone: sent, 1 try"]),
        (result(PHONE, PHONE), ["not expected: fcm phone: sent, 1 try"]),
        (result(PHONE, CHAT), ["not expected: telegram 5: sent, 1 try"]),
        (
            result(DEAD),
            ["missing: fcm phone: sent, 1 try", "not expected: fcm phone: dead letter, 1 try, target_gone"],
        ),
        (
            result(PHONE, accepted_times=2),
            ["the provider took it 2 times instead of 1: fcm phone: sent, 1 try"],
        ),
        (
            result(PHONE, accepted_times=0),
            ["the provider took it 0 times instead of 1: fcm phone: sent, 1 try"],
        ),
        (
            result(PHONE, ended=False),
            ["it had not come to its end when the demo stopped waiting"],
        ),
    ],
)
def test_each_fault_is_named(seen: Result, said: list[str]) -> None:
    assert faults(seen, ADDRESSES) == said


def test_the_summary_shows_a_fault_plainly_and_says_that_not_all_went_well() -> None:
    shown = io.StringIO()
    assert not summary.show([result(PHONE), result(PHONE, DEAD)], Console(shown, {}))
    text = shown.getvalue()
    assert "Line 2, one by HTTP: not expected: fcm phone: dead letter, 1 try, target_gone." in text
    assert "1 of 2 did not go as they should." in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("ok ", "NO "))]
    assert rows[0] == ["ok", "one", "HTTP", "202", "accepted", "3", "sent", "10"]
    assert rows[1][0] == "NO"


def test_the_summary_says_so_when_all_went_well() -> None:
    shown = io.StringIO()
    assert summary.show([result(PHONE)], Console(shown, {}))
    assert shown.getvalue().endswith("All 1 went as they should.\n")


def test_an_alert_has_ended_when_it_is_refused_or_all_its_deliveries_have_ended() -> None:
    ended = [
        Delivery("whole", "d1", PHONE),
        Delivery("whole", "d2", CHAT),
        Delivery("half", "d3", PHONE),
        Delivery("being-fanned-out", "d4", PHONE),
        Delivery("refused", None, End("ingest", None, Status.DEAD, 0, "invalid_alert")),
    ]
    fanned_out = {"whole": 2, "half": 2, "to-nobody": 0}
    alerts = ["whole", "half", "being-fanned-out", "refused", "to-nobody", "unknown"]
    assert unfinished(alerts, fanned_out, ended) == {"half", "being-fanned-out", "unknown"}
