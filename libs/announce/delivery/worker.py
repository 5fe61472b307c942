"""The hands that move deliveries through the pipeline."""

import asyncio
import logging
import random
from typing import Final

from announce.bus.consumer import Delivery
from announce.bus.streams import company_of
from announce.delivery.job import Job
from announce.delivery.lanes import Lanes
from announce.delivery.pace import MAX_AHEAD_S, Pace
from announce.delivery.parking import Parking
from announce.delivery.pipeline import Pipeline
from announce.delivery.settlement import HandBack, Settler
from announce.runtime.backoff import wait_for_event

log = logging.getLogger(__name__)

FAILED_STEP_DELAY_S: Final = 30.0
LONG_STEP_S: Final = 1.0
REST: Final = 0.1
"""Up to so much of a long step's time its hand rests."""


class Worker:
    """Moves deliveries through a pipeline with a fixed number of hands, shared fairly between companies.

    A delivery that waits for its next try takes up no hand. Everything taken is settled, by the recorder or here.
    """

    def __init__(self, pipeline: Pipeline, settler: Settler, parking: Parking, hands: int) -> None:
        self._pipeline = pipeline
        self._settler = settler
        self._parking = parking
        self._pace = pipeline.pace
        self._turn = asyncio.Lock()
        self._hands = hands
        self._lanes = Lanes[Delivery | Job](hands)
        self._waiting: dict[Job, asyncio.TimerHandle] = {}
        self._stopped = asyncio.Event()

    async def take(self, delivery: Delivery) -> None:
        """Take a message; it is worked on when it is its company's turn."""
        parked_s = self._parking.admit(delivery)
        if parked_s is None:
            self._lanes.put(company_of(delivery.subject), delivery)
        else:
            await self._settler.park(delivery, parked_s)

    async def run(self) -> None:
        """Work. Ends by cancellation."""
        async with asyncio.TaskGroup() as hands:
            for _ in range(self._hands):
                hands.create_task(self._work())

    def stop(self) -> None:
        """Begin nothing any more: hand back what waits, and let calls that are under way end."""
        self._stopped.set()
        self._pipeline.pause.stop()
        for job, timer in self._waiting.items():
            timer.cancel()
            self._hand_back(job)
        self._waiting.clear()
        for item in self._lanes.clear():
            self._hand_back(item)

    async def _work(self) -> None:
        while True:
            company_id, item = await self._next()
            began_s = asyncio.get_running_loop().time()
            try:
                await self._step(item)
            except asyncio.CancelledError:
                if _being_cancelled():
                    raise
                self._fail(item)
            except Exception as error:  # noqa: BLE001 - whatever one message brings about, the others go on
                self._fail(item, error)
            finally:
                self._release(company_id, began_s)

    async def _next(self) -> tuple[str, Delivery | Job]:
        if self._pace is None:
            return await self._lanes.take()
        # One at a time: whose turn it is, is decided when the provider takes another call, and not before.
        async with self._turn:
            while True:
                company_id, item = await self._lanes.take()
                if isinstance(item, Delivery) or await self._has_turn(item, self._pace):
                    return company_id, item
                self._lanes.release(company_id)

    async def _has_turn(self, job: Job, pace: Pace) -> bool:
        wait_s = 0.0 if job.admitted else await pace.target_turn(job.address)
        if wait_s > MAX_AHEAD_S:
            self._hand_back(job, wait_s)
        elif wait_s > 0:
            self._wait(job, wait_s)
        else:
            job.admitted = not await wait_for_event(self._stopped, await pace.turn())
            if not job.admitted:
                self._hand_back(job)
        return job.admitted

    def _release(self, company_id: str, began_s: float) -> None:
        loop = asyncio.get_running_loop()
        took_s = loop.time() - began_s
        if took_s < LONG_STEP_S:
            self._lanes.release(company_id)
        else:
            # Calls that hang run out of time together, and then everybody waits for them to begin anew together.
            loop.call_later(took_s * REST * random.random(), self._lanes.release, company_id)

    async def _step(self, item: Delivery | Job) -> None:
        if isinstance(item, Job):
            await self._advance(item)
            return
        job = await self._pipeline.begin(item, untouched=self._parking.untouched(item))
        if job is None:
            return
        if self._pace is None:
            await self._advance(job)
        else:
            self._queue(job)

    async def _advance(self, job: Job) -> None:
        wait_s = await self._pipeline.advance(job)
        if wait_s is not None:
            self._wait(job, wait_s)

    def _wait(self, job: Job, wait_s: float) -> None:
        if self._stopped.is_set():
            self._hand_back(job)
        else:
            self._waiting[job] = asyncio.get_running_loop().call_later(wait_s, self._resume, job)

    def _resume(self, job: Job) -> None:
        del self._waiting[job]
        self._queue(job)

    def _queue(self, job: Job) -> None:
        self._lanes.put(company_of(job.delivery.subject), job)

    def _fail(self, item: Delivery | Job, error: Exception | None = None) -> None:
        log.error("step failed", exc_info=error)
        self._hand_back(item, FAILED_STEP_DELAY_S)

    def _hand_back(self, item: Delivery | Job, delay_s: float = 0.0) -> None:
        delivery = item.delivery if isinstance(item, Job) else item
        self._settler.settle(delivery, HandBack(delay_s))


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
