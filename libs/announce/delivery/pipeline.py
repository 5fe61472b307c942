"""What happens to one delivery: checked, sent, classified, decided, recorded. Settling is the settler's."""

import asyncio
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Final

from announce.bus.consumer import Delivery
from announce.bus.deferral import deferrals_of
from announce.delivery.announcement import announcement
from announce.delivery.history import HistoryLookup
from announce.delivery.job import Job
from announce.delivery.letter import Attempts, failed_letter, raw_letter
from announce.delivery.metrics import DEAD_LETTERS, ENDED, RETRIES, count_attempt, log_attempt
from announce.delivery.moves import Moves
from announce.delivery.outage import unanswered
from announce.delivery.pace import Pace
from announce.delivery.pause import Pause
from announce.delivery.recorder import Recorder
from announce.delivery.retry_budget import RetryBudget
from announce.delivery.settlement import Deferred, End, HandBack
from announce.model.channel import Channel, CredentialSource, CredentialUnavailable
from announce.model.envelope import TRACE_HEADER, Undecodable, decode_envelope
from announce.model.identity import row_id
from announce.model.outcome import (
    ChannelFault,
    CredentialRefused,
    Delivered,
    Failure,
    MarkupRefused,
    Outcome,
    Rejected,
    TargetGone,
    TargetMoved,
    Transient,
)
from announce.model.reason import Reason
from announce.model.retry import Defer, GiveUp, Progress, RetryAfter, RetryPolicy, decide
from announce.model.target import address_of, target_at
from announce.model.trace import continue_trace
from announce.outbound.client import HttpClient
from announce.store.deliveries import AttemptRow, DeliveryRecord, Ended, History
from announce.store.targets import GoneTarget, MovedTarget

MAX_PUT_OFF_S: Final = 1.0
"""A retry that has to be put off for longer waits in the stream and takes up no place here."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps of a delivery through one channel.

    A step ends with the message handed to the recorder, or with the seconds to wait before the next step.
    """

    channel: Channel
    credentials: CredentialSource
    client: HttpClient
    policy: RetryPolicy
    budget: RetryBudget
    recorder: Recorder
    pause: Pause
    history: HistoryLookup
    moves: Moves
    pace: Pace | None

    async def begin(self, delivery: Delivery, *, untouched: bool) -> Job | None:
        """Read a message; None when it has been handed to the recorder already.

        Args:
            delivery: the message.
            untouched: nobody can have worked on it before.
        """
        try:
            envelope = decode_envelope(delivery.data)
            address = address_of(envelope.target)
        except (Undecodable, KeyError) as error:
            self._bury_undecodable(delivery, str(error))
            return None
        deferrals = deferrals_of(delivery)
        history = History() if untouched and not deferrals else await self.history.find(envelope)
        job = Job(
            delivery=delivery,
            envelope=envelope,
            address=address,
            traceparent=continue_trace(delivery.header(TRACE_HEADER)),
            attempt=history.attempts,
            tries=history.tries,
            deferrals=deferrals,
            first_attempt_at=history.first_at or datetime.now(UTC),
            started_s=asyncio.get_running_loop().time(),
        )
        if history.ended is not None:
            # Its acknowledgement was lost, or the process died before it could send one.
            self.recorder.settle(delivery, DeliveryRecord(), End(announcement(envelope, history.ended)))
            return None
        return job

    async def advance(self, job: Job) -> float | None:
        """Make the next attempt; return the seconds to wait before another one, or None when it has ended."""
        if not await self.pause.passage(job.envelope.company_id):
            return 0.0
        try:
            return await self._pass(job)
        except BaseException:
            self.pause.unused()
            raise

    async def _pass(self, job: Job) -> float | None:
        if moved_to := self.moves.of(job.address):
            job.move(target_at(self.channel.name, moved_to))
        now = datetime.now(UTC)
        if job.envelope.expired(now):
            self.pause.unused()
            self._end(job, job.expired_row(now))
            return None
        try:
            credential = await self.credentials.current()
        except CredentialUnavailable as error:
            # Nobody was called, so this is no attempt.
            return self._put_off(job, self.pause.misconfigured(error.outcome.detail))
        began_s = asyncio.get_running_loop().time()
        outcome, row = await self._attempt(job, credential)
        if self.pace and isinstance(outcome, Transient) and outcome.reason is Reason.RATE_LIMITED:
            await self.pace.limited(row.company_id, row.target, outcome.retry_after_s or 0.0)
        return self._decide(job, outcome, row, began_s)

    async def _attempt(self, job: Job, credential: str) -> tuple[Outcome, AttemptRow]:
        # The event loop's clock counts in milliseconds.
        began_at, began_s = datetime.now(UTC), perf_counter()
        job.attempt += 1
        if job.attempt == 1:
            self.budget.first_try()
        outcome = await self._call(job, credential)
        latency_s = perf_counter() - began_s
        count_attempt(self.channel.name, outcome, latency_s)
        row = job.attempt_row(outcome, began_at, latency_s)
        log_attempt(row)
        return outcome, row

    async def _call(self, job: Job, credential: str) -> Outcome:
        try:
            request = self.channel.build_request(job.envelope, credential, job.plain)
        except ValueError as error:
            return Rejected(reason=Reason.INVALID_REQUEST, detail=str(error))
        request = replace(request, headers={**request.headers, TRACE_HEADER: job.traceparent})
        outcome = self.channel.classify(await self.client.post(request, self.channel.timeout_s))
        if isinstance(outcome, CredentialRefused):
            self.credentials.refuse(credential)
        return outcome

    def _decide(self, job: Job, outcome: Outcome, row: AttemptRow, began_s: float) -> float | None:
        match outcome:
            case Delivered():
                self.pause.answered()
                if self.pace:
                    self.pace.sent()
                self._end(job, row)
                return None
            case CredentialRefused() if not job.credential_renewed:
                job.credential_renewed = True
                self.pause.unused()
                return self._at_once(DeliveryRecord([row]))
            case CredentialRefused() | ChannelFault():
                return self._hold(job, row, self.pause.misconfigured(outcome.detail))
            case Transient() if unanswered(outcome):
                envelope = job.envelope
                hold_s = self.pause.unanswered(envelope.company_id, envelope.delivery_id, began_s, outcome.detail)
                return self._retry_or_give_up(job, outcome, row) if hold_s is None else self._hold(job, row, hold_s)
            case _:
                self.pause.answered()
                return self._amend(job, outcome, row)

    def _amend(self, job: Job, failure: Failure, row: AttemptRow) -> float | None:
        """Send what the provider refused in the form that it asked for, once."""
        match failure:
            case TargetMoved() if not job.moved:
                job.moved = True
                job.move(failure.moved_to)
                self.moves.learn(row.target, job.address)
                moved = MovedTarget(row.company_id, row.channel, row.target, job.address, row.created_at)
                return self._at_once(DeliveryRecord([row], moved=moved))
            case MarkupRefused() if not job.plain:
                job.plain = True
                return self._at_once(DeliveryRecord([row]))
            case _:
                return self._retry_or_give_up(job, failure, row)

    def _at_once(self, record: DeliveryRecord) -> float:
        self.recorder.record(record)
        return 0.0

    def _hold(self, job: Job, row: AttemptRow, wait_s: float) -> float:
        """Try again when the pause lets it: what everybody suffers costs a delivery neither a try nor its budget."""
        self.recorder.record(DeliveryRecord([row]))
        return self._put_off(job, wait_s)

    def _put_off(self, job: Job, wait_s: float) -> float:
        job.started_s = asyncio.get_running_loop().time() + wait_s
        return wait_s

    def _retry_or_give_up(self, job: Job, failure: Failure, row: AttemptRow) -> float | None:
        elapsed_s = asyncio.get_running_loop().time() - job.started_s
        job.tries += 1
        match decide(self.policy, failure, Progress(job.tries, elapsed_s, job.deferrals), random.random()):
            case RetryAfter(wait_s):
                return self._retry(job, row, wait_s)
            case Defer(wait_s):
                deferred = Deferred(job.envelope.delivery_id, job.deferrals + 1, wait_s)
                self.recorder.settle(job.delivery, DeliveryRecord([row]), deferred)
                return None
            case GiveUp():
                self._give_up(job, failure, row)
                return None

    def _retry(self, job: Job, row: AttemptRow, wait_s: float) -> float | None:
        RETRIES.labels(self.channel.name).inc()
        put_off_s = self.budget.retry()
        if put_off_s > MAX_PUT_OFF_S:
            self.recorder.settle(job.delivery, DeliveryRecord([row]), HandBack(wait_s + put_off_s))
            return None
        self.recorder.record(DeliveryRecord([row]))
        job.started_s += put_off_s
        return wait_s + put_off_s

    def _give_up(self, job: Job, failure: Failure, row: AttemptRow) -> None:
        now, attempts = datetime.now(UTC), Attempts(job.attempt, job.first_attempt_at)
        letter = failed_letter(job.delivery.source, job.envelope, job.address, attempts, failure)
        letter = letter._replace(id=row_id(now), created_at=now)
        gone = None
        if isinstance(failure, TargetGone):
            gone = GoneTarget(row.company_id, row.channel, row.target, failure.reason, row.created_at)
        DEAD_LETTERS.labels(self.channel.name, failure.reason).inc()
        self._end(job, row, DeliveryRecord([row], letter, gone=gone), at=letter.created_at)

    def _end(self, job: Job, row: AttemptRow, record: DeliveryRecord | None = None, at: datetime | None = None) -> None:
        ENDED.labels(self.channel.name, row.status, row.reason or "").inc()
        end = Ended(row.status, row.target, row.attempts, row.reason, row.status_code, at or row.created_at)
        self.recorder.settle(job.delivery, record or DeliveryRecord([row]), End(announcement(job.envelope, end)))

    def _bury_undecodable(self, delivery: Delivery, problem: str) -> None:
        ENDED.labels(self.channel.name, "failed", Reason.UNDECODABLE).inc()
        DEAD_LETTERS.labels(self.channel.name, Reason.UNDECODABLE).inc()
        letter = raw_letter(delivery.source, Reason.UNDECODABLE, problem)
        self.recorder.settle(delivery, DeliveryRecord(dead_letter=letter), End(None))
