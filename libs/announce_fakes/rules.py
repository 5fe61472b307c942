import asyncio
import bisect
from typing import Generic

import msgspec

from announce_fakes.contract import S


class Rule(Generic[S]):
    """A script in force.

    Attributes:
        released: Set when the rule is cleared, which lets go of the calls that it holds.
    """

    def __init__(self, number: int, script: S) -> None:
        self.number = number
        self.script = script
        self.times_left = script.times
        self.released = asyncio.Event()

    @property
    def pattern(self) -> str:
        """The target that it applies to; a trailing star stands for any rest."""
        return self.script.target if self.script.target is not None else "*"

    def describe(self) -> dict[str, object]:
        """The rule as /control shows it."""
        shown: dict[str, object] = msgspec.to_builtins(self.script)
        shown.pop("times", None)
        times = {} if self.times_left is None else {"times_left": self.times_left}
        return {"id": self.number, "target": self.pattern, **times, **shown}


class RuleBook(Generic[S]):
    """The rules in force; of those that fit a target the most specific applies, then the newest."""

    def __init__(self) -> None:
        self._count = 0
        self._exact: dict[str, list[Rule[S]]] = {}
        self._patterns: list[Rule[S]] = []
        self._spent_holds: list[Rule[S]] = []

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    def add(self, script: S) -> None:
        """Puts a script in force."""
        self._count += 1
        rule = Rule(self._count, script)
        if rule.pattern.endswith("*"):
            bisect.insort(self._patterns, rule, key=lambda r: (-len(r.pattern), -r.number))
        else:
            self._exact.setdefault(rule.pattern, []).append(rule)

    def take(self, target: str) -> Rule[S] | None:
        """The rule for a call to `target`, counted as used once."""
        rule = self._find(target)
        if rule is not None and rule.times_left is not None:
            rule.times_left -= 1
            if not rule.times_left:
                self._drop(rule)
                # The calls that it holds are let go when it would have been cleared, not now.
                self._spent_holds += [rule] if rule.script.hang else []
        return rule

    def forget(self, pattern: str | None = None) -> None:
        """Clears the rules that were made for `pattern`, or all, and lets go of what they hold."""
        for rule in self.rules():
            if pattern in (None, rule.pattern):
                self._drop(rule)
                rule.released.set()
        for rule in self._spent_holds[:]:
            if pattern in (None, rule.pattern):
                self._spent_holds.remove(rule)
                rule.released.set()

    def rules(self) -> list[Rule[S]]:
        """Every rule in force, oldest first."""
        exact = [rule for rules in self._exact.values() for rule in rules]
        return sorted(exact + self._patterns, key=lambda rule: rule.number)

    def _find(self, target: str) -> Rule[S] | None:
        if rules := self._exact.get(target):
            return rules[-1]
        for rule in self._patterns:
            if target.startswith(rule.pattern[:-1]):
                return rule
        return None

    def _drop(self, rule: Rule[S]) -> None:
        if rule.pattern.endswith("*"):
            self._patterns.remove(rule)
            return
        rules = self._exact[rule.pattern]
        rules.remove(rule)
        if not rules:
            del self._exact[rule.pattern]
