"""The HTTP API: POST /v1/alerts and POST /v1/alerts:batch."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from aiohttp import web

from announce.model.alert import MAX_ALERT_BYTES
from announce.model.envelope import TRACE_HEADER
from announce.observe.logging import event
from announce.runtime.problem import Problem
from ingestd import metrics
from ingestd.acceptance import Acceptance, Verdict
from ingestd.authentication import Producer, authenticate, read_claim
from ingestd.batch import CONTENT_TYPE, MAX_BATCH_BYTES, Line, LineResult, Taken, encode_results, slices, split_lines
from ingestd.body import read_body
from ingestd.keys import Keys
from ingestd.offer import read_offer
from ingestd.problems import Kind, rate_exceeded, too_large, unavailable
from ingestd.rate import CompanyRates
from ingestd.settings import IngestdSettings

log = logging.getLogger(__name__)


class Api:
    """Answers producers."""

    def __init__(self, settings: IngestdSettings, keys: Keys, acceptance: Acceptance) -> None:
        self._settings = settings
        self._keys = keys
        self._acceptance = acceptance
        self._rates = CompanyRates(settings.company_rate_per_s)
        self._batches = asyncio.Semaphore(settings.batches_at_once)

    def routes(self) -> list[web.RouteDef]:
        """Return what it serves."""
        return [web.post("/v1/alerts", self.take_alert), web.post("/v1/alerts:batch", self.take_batch)]

    async def take_alert(self, request: web.Request) -> web.Response:
        """Take one alert in."""
        with metrics.REQUEST_SECONDS.labels("alerts").time(), metrics.UNDER_WAY.track_inprogress():
            producer, body = await self._authenticated(request, MAX_ALERT_BYTES)
            with _noting_refusal(company_id=producer.company_id):
                self._count(producer, 1)
                taken = await self._take(body, producer, request.headers.get(TRACE_HEADER))
        return web.Response(status=202, body=msgspec.json.encode(taken.document()), content_type="application/json")

    async def take_batch(self, request: web.Request) -> web.Response:
        """Take many alerts in, each for itself."""
        results: list[LineResult] = []
        with metrics.REQUEST_SECONDS.labels("batch").time(), metrics.UNDER_WAY.track_inprogress():
            async with self._batches:
                producer, body = await self._authenticated(request, MAX_BATCH_BYTES)
                with _noting_refusal(company_id=producer.company_id):
                    lines = split_lines(body)
                    self._count(producer, len(lines))
                for portion in slices(lines):
                    work = (self._take_line(line, producer, request.headers.get(TRACE_HEADER)) for line in portion)
                    results += await asyncio.gather(*work)
        return _batch_answer(results)

    async def _authenticated(self, request: web.Request, limit: int) -> tuple[Producer, bytes]:
        with _noting_refusal():
            if self._keys.current is None:
                raise unavailable("The keys aren't loaded yet.")
            claim = read_claim(request.headers, time.time())
            body = await read_body(request, limit, self._settings.body_timeout_s)
            return authenticate(self._keys.current, claim, request.method, request.raw_path, body), body

    def _count(self, producer: Producer, alerts: int) -> None:
        wait_s = self._rates.take(producer.company_id, self._keys.rate_of(producer.company_id), alerts)
        if wait_s:
            raise rate_exceeded(wait_s)

    async def _take(self, raw: bytes, producer: Producer, traceparent: str | None) -> Taken:
        offer = read_offer(raw, producer, traceparent)
        verdict = await self._acceptance.take(offer)
        metrics.ALERTS.labels(metrics.HTTP, verdict).inc()
        if verdict is Verdict.DUPLICATE:
            metrics.DUPLICATES.labels(metrics.ANSWERED).inc()
        company_id, alert_id = offer.key
        event(log, logging.DEBUG, "alert taken", company_id=company_id, alert_id=alert_id, status=verdict)
        return Taken(alert_id, verdict)

    async def _take_line(self, line: Line, producer: Producer, traceparent: str | None) -> LineResult:
        try:
            with _noting_refusal(company_id=producer.company_id, line=line.number):
                if len(line.raw) > MAX_ALERT_BYTES:
                    raise too_large("A line", f"{MAX_ALERT_BYTES} bytes")
                return await self._take(line.raw, producer, traceparent)
        except Problem as problem:
            return problem


def _batch_answer(results: list[LineResult]) -> web.Response:
    refused = [result for result in results if isinstance(result, Problem)]
    unavailable_ones = [problem for problem in refused if problem.kind == Kind.UNAVAILABLE]
    if len(unavailable_ones) == len(results):
        raise unavailable_ones[0]
    return web.Response(
        status=207 if refused else 202,
        body=encode_results(results),
        # Those lines, sent again, may be taken then.
        headers=unavailable_ones[0].headers if unavailable_ones else None,
        content_type=CONTENT_TYPE,
    )


@contextmanager
def _noting_refusal(**known: object) -> Iterator[None]:
    """Count and log the problem that the block ends with, if it does."""
    try:
        yield
    except Problem as problem:
        metrics.ALERTS.labels(metrics.HTTP, problem.kind).inc()
        event(
            log,
            logging.INFO,
            "alert refused",
            kind=problem.kind,
            status=problem.status,
            detail=problem.detail,
            **known,
        )
        raise
