"""Writing down what arrived, many at a time: new alerts, and what was refused."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from announce.bus.source import Source
from announce.bus.streams import company_of
from announce.model.identity import row_id
from announce.model.payload import storable_payload
from announce.runtime.batcher import Batcher
from announce.store.alerts import AcceptedAlert, Arrival, FinishedFanout, finish_fanouts, register_alerts
from announce.store.database import Database, RowRefused
from announce.store.deliveries import DeadLetterRow, DeliveryRecord, record_deliveries
from ingestd.arrival import Refusal
from ingestd.patience import insist

CHANNEL: Final = "ingest"
MAX_ROWS: Final = 500


Item = TypeVar("Item")
Result = TypeVar("Result")

Serve = Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]


class Register:
    """The database's side of intake. It waits for a database that is away.

    Raises:
        RowRefused: from each method; the database can't hold this row.
    """

    def __init__(self, database: Database, window_s: float) -> None:
        self._database = database
        self._window_s = window_s
        self._alerts = Batcher(_each_for_itself(self._register), max_items=MAX_ROWS)
        self._letters = Batcher(_each_for_itself(self._bury), max_items=MAX_ROWS)
        self._fanouts = Batcher(_each_for_itself(self._finish), max_items=MAX_ROWS)

    async def register(self, alert: AcceptedAlert) -> Arrival:
        """Write down an alert, if it is new, and tell what it is."""
        return _unless_refused(await self._alerts.submit(alert))

    async def bury(self, source: Source, refusal: Refusal) -> None:
        """Keep a message that isn't taken as a dead letter."""
        _unless_refused(await self._letters.submit(_dead_letter(source, refusal)))

    async def finish(self, fanout: FinishedFanout) -> None:
        """Write down that a fan-out has ended."""
        _unless_refused(await self._fanouts.submit(fanout))

    async def _register(self, alerts: Sequence[AcceptedAlert]) -> Sequence[Arrival]:
        return await insist("register", lambda: register_alerts(self._database, alerts, self._window_s))

    async def _bury(self, letters: Sequence[DeadLetterRow]) -> Sequence[None]:
        records = [DeliveryRecord(dead_letter=letter) for letter in letters]
        # A redelivered message has the id that it had before.
        await insist("bury", lambda: record_deliveries(self._database, records, again=True))
        return [None] * len(letters)

    async def _finish(self, fanouts: Sequence[FinishedFanout]) -> Sequence[None]:
        await insist("finish", lambda: finish_fanouts(self._database, fanouts))
        return [None] * len(fanouts)


def _each_for_itself(serve: Serve[Item, Result]) -> Serve[Item, Result | RowRefused]:
    """Let a row that the database can't hold fail alone."""

    async def serve_all(items: Sequence[Item]) -> Sequence[Result | RowRefused]:
        try:
            return await serve(items)
        except RowRefused as error:
            if len(items) == 1:
                return [error]
        return [result for item in items for result in await serve_all([item])]

    return serve_all


def _unless_refused(result: Result | RowRefused) -> Result:
    if isinstance(result, RowRefused):
        raise result
    return result


def _dead_letter(source: Source, refusal: Refusal) -> DeadLetterRow:
    return DeadLetterRow(
        id=row_id(source.published_at, source.seq),
        created_at=source.published_at,
        company_id=company_of(source.subject),
        alert_id=refusal.alert_id,
        delivery_id=None,
        channel=CHANNEL,
        target=None,
        original_subject=source.subject,
        payload=storable_payload(source.data),
        attempts=0,
        reason=refusal.reason,
        status_code=None,
        last_error=refusal.detail,
        first_attempt_at=source.published_at,
    )
