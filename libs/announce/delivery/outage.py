"""Telling a provider that is out from targets that fail."""

import math
from typing import Final

from announce.model.outcome import Outcome, Transient
from announce.model.reason import Reason

_NO_ANSWER: Final = frozenset(
    {Reason.TIMEOUT, Reason.CONNECTION_FAILED, Reason.UNEXPECTED_REPLY, Reason.PROVIDER_ERROR}
)


def unanswered(outcome: Outcome) -> bool:
    """Tell whether an outcome is none of the provider's answers to the delivery, but the lack of one."""
    return isinstance(outcome, Transient) and outcome.reason in _NO_ANSWER


QUIET_S: Final = 2.0
"""For so long nothing must have been answered: one company can fail very fast between two answers to another."""


class Outage:
    """Counts the deliveries that got no answer since the provider's last sign of life.

    A call counts only if it began after that sign: calls of a company whose targets hang end together, long after they
    began, and meanwhile others got their answers.

    Args:
        after: so many deliveries in a row make an outage.
    """

    def __init__(self, after: int) -> None:
        self._after = after
        self._alive_at = -math.inf
        self._failing: set[object] = set()
        self._companies: set[str] = set()

    def answered(self, now_s: float) -> None:
        """Hear of a sign of life."""
        self._alive_at = now_s
        if self._failing:
            self._failing.clear()
            self._companies.clear()

    def failed(self, company_id: str, delivery: object, began_s: float, now_s: float) -> bool:
        """Hear of a call without an answer; tell whether the provider is out."""
        if began_s >= self._alive_at:
            self._failing.add(delivery)
            self._companies.add(company_id)
        return len(self._failing) >= self._after and now_s - self._alive_at >= QUIET_S

    def affects(self, company_id: str) -> bool:
        """Tell whether a company's calls are among those without an answer."""
        return company_id in self._companies
