"""Whether a service can do its work now, and if not, why."""

from collections.abc import Collection


class Health:
    """The dependencies of one service, each ready or with the reason why it isn't.

    Args:
        dependencies: what the service can't do its work without.
        optional: what it can do without for a while: their reasons are shown, but it stays ready.
    """

    def __init__(self, *dependencies: str, optional: Collection[str] = ()) -> None:
        self._required = frozenset(dependencies)
        self._reasons: dict[str, str | None] = dict.fromkeys((*dependencies, *optional), "starting")

    def up(self, dependency: str) -> None:
        """Say that this dependency works."""
        self._reasons[dependency] = None

    def down(self, dependency: str, reason: str) -> None:
        """Say that this dependency doesn't work, and why."""
        self._reasons[dependency] = reason

    def is_up(self, dependency: str) -> bool:
        """Tell whether this dependency worked when it was last heard of."""
        return self._reasons[dependency] is None

    @property
    def ready(self) -> bool:
        """Whether every dependency that is required works."""
        return all(self.is_up(name) for name in self._required)

    def report(self) -> dict[str, str]:
        """Each dependency with "ok" or its reason."""
        return {name: reason or "ok" for name, reason in self._reasons.items()}
