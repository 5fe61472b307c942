import pytest

from announce_fakes.rules import RuleBook
from announce_fakes.script import Script, ScriptError, read_parameters


def book(*scripts: Script) -> RuleBook[Script]:
    made: RuleBook[Script] = RuleBook()
    for script in scripts:
        made.add(script)
    return made


def taken(rules: RuleBook[Script], target: str) -> int | None:
    rule = rules.take(target)
    return None if rule is None else rule.script.status


def test_a_rule_without_a_target_is_everybodys() -> None:
    rules = book(Script(status=500))
    assert taken(rules, "a") == 500
    assert taken(rules, "") == 500


def test_the_most_specific_rule_wins_and_then_the_newest() -> None:
    rules = book(
        Script(status=401, target="abc"),
        Script(status=402, target="abc"),
        Script(status=403, target="ab*"),
        Script(status=404, target="a*"),
        Script(status=405, target="a*"),
        Script(status=500),
    )
    assert taken(rules, "abc") == 402
    assert taken(rules, "abd") == 403
    assert taken(rules, "axe") == 405
    assert taken(rules, "b") == 500


def test_a_rule_is_forgotten_after_its_times_and_the_next_one_applies() -> None:
    rules = book(Script(status=500), Script(status=429, target="a", times=2))
    assert [taken(rules, "a") for _ in range(3)] == [429, 429, 500]
    assert len(rules.rules()) == 1


def test_times_count_this_rules_calls_only() -> None:
    rules = book(Script(status=429, target="a*", times=1))
    assert taken(rules, "b") is None
    assert taken(rules, "ab") == 429
    assert not rules


def test_forgetting_a_pattern_leaves_the_others() -> None:
    rules = book(Script(status=500), Script(status=400, target="a"), Script(status=403, target="a*"))
    rules.forget("a")
    assert taken(rules, "a") == 403
    rules.forget("*")
    assert taken(rules, "b") is None
    rules.forget()
    assert not rules


def test_a_spent_hang_still_lets_its_calls_go_when_it_is_cleared() -> None:
    rules = book(Script(hang=True, times=1))
    rule = rules.take("a")
    assert rule is not None
    assert not rules
    assert not rule.released.is_set()
    rules.forget()
    assert rule.released.is_set()


def test_a_rule_shows_what_is_left_of_it() -> None:
    rules = book(Script(status=503, retry_after=2, target="a", times=3))
    rules.take("a")
    assert [rule.describe() for rule in rules.rules()] == [
        {"id": 1, "target": "a", "times_left": 2, "status": 503, "retry_after": 2}
    ]


def test_parameters_may_be_text() -> None:
    script = read_parameters(Script, {"fail": "0", "target": "x", "delay_ms": "1.5", "hang": "1", "bytes": None})
    assert script == Script(fail=False, target="x", delay_ms=1.5, hang=True)
    assert read_parameters(Script, {"target": -100, "status": 500}).target == "-100"


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"stauts": "500"}, "stauts"),
        ({"status": "99"}, "status"),
        ({"status": "600"}, "status"),
        ({"status": "many"}, "status"),
        ({"fail": "perhaps"}, "fail"),
        ({"retry_after": "-1"}, "retry_after"),
        ({"delay_ms": "-0.1"}, "delay_ms"),
        ({"drip": "0"}, "drip"),
        ({"bytes": "-1"}, "bytes"),
        ({"times": "0", "status": "500"}, "times"),
        ({"times": "3"}, "times"),
        ({"target": "a"}, "target"),
        ({"hang": "1", "reset": "1"}, "reset"),
        ({"html": "1", "bytes": "10"}, "html"),
        ({"fail": "1", "status": "503"}, "fail"),
        ({"location": "http://x/", "status": "500"}, "location"),
    ],
)
def test_a_wrong_parameter_is_named(parameters: dict[str, object], named: str) -> None:
    with pytest.raises(ScriptError, match=named):
        read_parameters(Script, parameters)


def test_errors_show_the_name_that_the_caller_wrote() -> None:
    with pytest.raises(ScriptError, match=r"\$\.token_status"):
        read_parameters(Script, {"status": "x"}, "token_")
    with pytest.raises(ScriptError, match="`token_stauts`"):
        read_parameters(Script, {"stauts": "x"}, "token_")
