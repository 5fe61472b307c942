"""What happens to one delivery: checked, sent, classified, decided, recorded. Settling is the recorder's."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Final

from announce.bus.consumer import Delivery
from announce.delivery.job import Job, undecodable_letter
from announce.delivery.metrics import ENDED, RETRIES, SETTLED, count_attempt
from announce.delivery.pause import Pause
from announce.delivery.recorder import Recorder
from announce.model.channel import Channel, CredentialSource, CredentialUnavailable
from announce.model.envelope import TRACE_HEADER, Envelope, Undecodable, decode_envelope
from announce.model.outcome import ChannelFault, CredentialRefused, Delivered, Failure, Outcome, Rejected
from announce.model.reason import Reason
from announce.model.retry import GiveUp, RetryAfter, RetryPolicy, decide
from announce.model.target import address_of
from announce.model.trace import continue_trace
from announce.observe.logging import event
from announce.outbound.client import HttpClient
from announce.runtime.backoff import Backoff
from announce.runtime.batcher import Batcher
from announce.store.database import Database, DatabaseUnavailable
from announce.store.deliveries import AttemptRow, DeliveryRecord, History, histories

log = logging.getLogger(__name__)

MAX_LOOKUPS: Final = 500


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps of a delivery through one channel.

    A step ends with the message handed to the recorder, or with the seconds to wait before the next step.
    """

    channel: Channel
    credentials: CredentialSource
    client: HttpClient
    policy: RetryPolicy
    recorder: Recorder
    pause: Pause
    history: "HistoryLookup"

    async def begin(self, delivery: Delivery) -> Job | None:
        """Read a message; None when it has been settled or handed to the recorder already."""
        try:
            envelope = decode_envelope(delivery.data)
            address = address_of(envelope.target)
        except (Undecodable, KeyError) as error:
            self._end("failed", Reason.UNDECODABLE)
            self.recorder.record(DeliveryRecord(dead_letter=undecodable_letter(delivery, str(error))), ends=delivery)
            return None
        history = await self.history.find(envelope) if delivery.origin.num_delivered > 1 else History()
        if history.ended:
            # Its acknowledgement was lost, or the process died before it could send one.
            SETTLED.labels(self.channel.name, "ack").inc()
            await delivery.ack()
            return None
        return Job(
            delivery=delivery,
            envelope=envelope,
            address=address,
            traceparent=continue_trace(delivery.header(TRACE_HEADER)),
            attempt=history.attempts,
            tries=history.attempts,
            started_at=datetime.now(UTC),
            started_s=asyncio.get_running_loop().time(),
        )

    async def advance(self, job: Job) -> float | None:
        """Make the next attempt; return the seconds to wait before another one, or None when it has ended."""
        await self.pause.passage()
        now = datetime.now(UTC)
        if job.envelope.expired(now):
            self.pause.unused()
            self._end("expired", Reason.EXPIRED)
            self.recorder.record(DeliveryRecord([job.expired_row(now)]), ends=job.delivery)
            return None
        outcome, row = await self._attempt(job)
        return self._decide(job, outcome, row)

    async def _attempt(self, job: Job) -> tuple[Outcome, AttemptRow]:
        began_at, began_s = datetime.now(UTC), perf_counter()
        job.attempt += 1
        outcome = await self._call(job)
        latency_s = perf_counter() - began_s
        count_attempt(self.channel.name, outcome, latency_s)
        row = job.attempt_row(outcome, began_at, latency_s)
        _log_attempt(row)
        return outcome, row

    async def _call(self, job: Job) -> Outcome:
        try:
            credential = await self.credentials.current()
        except CredentialUnavailable as error:
            return error.outcome
        try:
            request = self.channel.build_request(job.envelope, credential)
        except ValueError as error:
            return Rejected(reason=Reason.INVALID_REQUEST, detail=str(error))
        request = replace(request, headers={**request.headers, TRACE_HEADER: job.traceparent})
        outcome = self.channel.classify(await self.client.post(request, self.channel.timeout_s))
        if isinstance(outcome, CredentialRefused):
            self.credentials.refuse(credential)
        return outcome

    def _decide(self, job: Job, outcome: Outcome, row: AttemptRow) -> float | None:
        match outcome:
            case CredentialRefused() if not job.credential_renewed:
                job.credential_renewed = True
                self.recorder.record(DeliveryRecord([row]))
                return 0.0
            case CredentialRefused() | ChannelFault():
                self.recorder.record(DeliveryRecord([row]))
                wait_s = self.pause.fault(outcome.detail)
                # Our own fault costs the delivery neither a try nor its budget.
                job.started_s = asyncio.get_running_loop().time() + wait_s
                return wait_s
            case Delivered():
                self.pause.working()
                self._end("sent", "")
                self.recorder.record(DeliveryRecord([row]), ends=job.delivery)
                return None
            case _:
                self.pause.working()
                return self._retry_or_give_up(job, outcome, row)

    def _retry_or_give_up(self, job: Job, failure: Failure, row: AttemptRow) -> float | None:
        elapsed_s = asyncio.get_running_loop().time() - job.started_s
        job.tries += 1
        match decide(self.policy, failure, job.tries, elapsed_s):
            case RetryAfter(wait_s):
                RETRIES.labels(self.channel.name).inc()
                self.recorder.record(DeliveryRecord([row]))
                return wait_s
            case GiveUp():
                self._end("failed", failure.reason)
                letter = job.dead_letter(failure, datetime.now(UTC))
                self.recorder.record(DeliveryRecord([row], letter), ends=job.delivery)
                return None

    def _end(self, status: str, reason: str) -> None:
        ENDED.labels(self.channel.name, status, reason).inc()


class HistoryLookup:
    """Looks up what was done for redelivered messages, many with one query."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = Batcher(self._find, max_items=MAX_LOOKUPS)

    def find(self, envelope: Envelope) -> asyncio.Future[History]:
        """Return what was done; waits for as long as the database is away."""
        return self._batcher.submit(envelope)

    async def _find(self, envelopes: Sequence[Envelope]) -> Sequence[History]:
        backoff = Backoff()
        while True:
            try:
                return await histories(self._database, envelopes)
            except DatabaseUnavailable:
                await asyncio.sleep(backoff.next())


def _log_attempt(row: AttemptRow) -> None:
    """One wide line: the whole attempt, except the recipient's address."""
    event(
        log,
        logging.INFO,
        "delivery attempted",
        company_id=row.company_id,
        alert_id=row.alert_id,
        delivery_id=row.delivery_id,
        channel=row.channel,
        attempt=row.attempts,
        status=row.status,
        reason=row.reason,
        status_code=row.status_code,
        error=row.last_error,
        latency_ms=row.latency_ms,
        replay_of=row.replay_of,
    )
