import base64
import itertools
import time
from collections import deque
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web

from announce_fakes.contract import Call
from announce_fakes.counts import Counts, Entry
from announce_fakes.script import Natural
from announce_fakes.waiting import Signal

What = Literal["calls", "accepted", "ids"]


class Selection(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Which entries to show, and what to wait for first.

    Attributes:
        target: Only this target's; a trailing star stands for any rest.
        since: Only entries with a greater ordinal.
        limit: At most so many, the newest.
        summary: Show sums instead.
        wait_for: First wait until so many have come since the journal was cleared (of this `target`, if given).
        of: What is counted: `calls`, `accepted` ones or distinct `ids` accepted.
        timeout_s: How long to wait at most, in seconds.
    """

    target: str | None = None
    since: Natural = 0
    limit: Natural = 1000
    summary: bool = False
    wait_for: Natural = 0
    of: What = "calls"
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0

    def __post_init__(self) -> None:
        if self.target is not None and self.wait_for and (self.of == "ids" or self.target.endswith("*")):
            raise ValueError("target: only the calls and accepted of one whole target can be waited for")


class Journal:
    """What arrived, bounded: small entries for the newest calls, whole requests for the newest few.

    Args:
        keep: How many entries to keep.
        keep_whole: How many of the newest keep their headers and body.
    """

    def __init__(self, keep: int = 2_000_000, keep_whole: int = 10_000) -> None:
        self._keep = keep
        self._keep_whole = keep_whole
        self._last_ordinal = 0
        self._wall_offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._signal = Signal()
        self.clear()

    def clear(self) -> None:
        """Empties the journal; ordinals go on."""
        self._entries: deque[Entry] = deque()
        self._whole: deque[Entry] = deque()
        self.counts = Counts()

    def record(self, call: Call, request: web.BaseRequest, status: int, fault: str = "") -> Entry:
        """Notes a call that arrived, with the status that it gets, or 0 while it has none."""
        self._last_ordinal += 1
        entry = Entry(
            self._last_ordinal,
            time.monotonic_ns() // 1000,
            self.counts.tally(call.target),
            call.key,
            status,
            fault,
            call.verdict,
            (call.path, request.raw_headers, call.body),
        )
        self._entries.append(entry)
        self._whole.append(entry)
        self.counts.add(entry)
        if len(self._whole) > self._keep_whole:
            self._whole.popleft().detail = None
        if len(self._entries) > self._keep:
            self.counts.forget(self._entries.popleft())
        if self._signal:
            self._signal.notify()
        return entry

    def settle(self, entry: Entry, status: int) -> None:
        """Gives an entry that was recorded without a status the one that it got in the end."""
        if self._entries and entry.ordinal >= self._entries[0].ordinal:
            self.counts.settle(entry, status)
            self._signal.notify()

    def count(self, of: What = "calls", target: str | None = None) -> int:
        """How many calls came, or were accepted, or how many distinct ids were accepted."""
        if target is not None:
            tally = self.counts.targets.get(target)
            return 0 if tally is None else tally.accepted if of == "accepted" else tally.calls
        counts = self.counts
        return {"calls": counts.total, "accepted": counts.accepted, "ids": len(counts.keys)}[of]

    async def wait_for(
        self, number: int, *, of: What = "calls", target: str | None = None, timeout_s: float = 10.0
    ) -> None:
        """Returns once `number` calls have come since the journal was cleared.

        Raises:
            TimeoutError: Fewer came within `timeout_s` seconds; the message says how many.
        """
        try:
            await self._signal.wait_until(lambda: self.count(of, target) >= number, timeout_s)
        except TimeoutError:
            came = self.count(of, target)
            raise TimeoutError(f"{number} {of} expected, {came} came within {timeout_s} s") from None

    def summary(self) -> dict[str, Any]:
        """Sums over what arrived since the journal was cleared; `forgotten` entries are only in the totals."""
        return {**self.counts.summary(), "forgotten": self.counts.total - len(self._entries)}

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        """The chosen entries, oldest first."""
        newest = itertools.islice(self._matching(selection), selection.limit)
        return [self._describe(entry) for entry in reversed(list(newest))]

    def _matching(self, selection: Selection) -> Iterator[Entry]:
        wanted = selection.target or "*"
        for entry in reversed(self._entries):
            if entry.ordinal <= selection.since:
                return
            target = entry.tally.target
            if target == wanted or (wanted.endswith("*") and target.startswith(wanted[:-1])):
                yield entry

    def _describe(self, entry: Entry) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "ordinal": entry.ordinal,
            "mono_us": entry.mono_us,
            "wall_us": entry.mono_us + self._wall_offset_us,
            "target": entry.tally.target,
            "id": entry.key,
            "status": entry.status,
            "fault": entry.fault,
        }
        if entry.verdict:
            shown["verdict"] = entry.verdict
        if entry.detail is not None:
            path, headers, body = entry.detail
            shown |= {"path": path, "headers": _readable_headers(headers), **_readable_body(body)}
        return shown


def _readable_headers(headers: tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    pairs = ((name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in headers)
    return {name: value for name, value in pairs if name.lower() != "authorization"}


def _readable_body(body: bytes) -> dict[str, object]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
    try:
        return {"body": text, "message": msgspec.json.decode(body)}
    except msgspec.DecodeError:
        return {"body": text}
