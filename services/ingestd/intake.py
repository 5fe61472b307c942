"""Taking alerts out of JetStream: what is valid and new is fanned out, what is refused becomes a dead letter."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from announce.bus.consumer import Delivery
from announce.bus.stored import StoredMessage
from announce.model.reason import Reason
from announce.observe.logging import event
from announce.store.alerts import Arrival
from ingestd import metrics
from ingestd.arrival import Arrived, Refusal, read_arrival, read_subject
from ingestd.fanout import Crowded, Fanout
from ingestd.keys import Keys
from ingestd.offer import CONTENT_HASH_HEADER
from ingestd.patience import insist
from ingestd.register import Register

log = logging.getLogger(__name__)

CROWDED_DELAY_S: Final = 5.0
FAILED_DELAY_S: Final = 30.0
GIVEN_UP: Final = "handed out as often as the consumer allows, never settled"


class Intake:
    """Works on alerts, each in a task of its own, and settles each message once its work is written down."""

    def __init__(self, keys: Keys, register: Register, fanout: Fanout) -> None:
        self._keys = keys
        self._register = register
        self._fanout = fanout
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, delivery: Delivery) -> None:
        """Take a message, to be worked on at once."""
        task = asyncio.create_task(self._work(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def bury(self, message: StoredMessage) -> None:
        """Keep an alert that JetStream has given up; what its fan-out had reached stays so."""
        await self._register.bury(message.source, Refusal(Reason.MAX_DELIVERIES, GIVEN_UP))

    async def stop(self, rest: Sequence[Delivery]) -> None:
        """Hand back what is still under way, and break off the work on it."""
        for delivery in rest:
            await delivery.hand_back()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, delivery: Delivery) -> None:
        delay_s: float | None = FAILED_DELAY_S
        try:
            await self._process(delivery)
            delay_s = None
        except Crowded:
            delay_s = CROWDED_DELAY_S
        except Exception:
            # Whatever one message brings about, the others go on, and it isn't lost.
            log.exception("alert failed", extra={"fields": {"stream_seq": delivery.origin.stream_seq}})
        finally:
            await _settle(delivery, delay_s)

    async def _process(self, delivery: Delivery) -> None:
        arrived = await self._read(delivery)
        if isinstance(arrived, Refusal):
            await self._refuse(delivery, arrived)
            return
        match await self._register.register(arrived.record):
            case Arrival.FIRST:
                _count(delivery, metrics.ACCEPTED)
                await self._fanout.run(arrived, resumed=delivery.origin.num_delivered > 1)
            case Arrival.DUPLICATE:
                _count(delivery, metrics.DUPLICATE)
                metrics.DUPLICATES.labels(metrics.DROPPED).inc()
            case Arrival.CONFLICT:
                detail = "alert_id: was used for an alert with other content"
                await self._refuse(delivery, Refusal(Reason.ALERT_ID_REUSED, detail, arrived.alert.alert_id))

    async def _read(self, delivery: Delivery) -> Arrived | Refusal:
        company_id = read_subject(delivery.subject)
        if isinstance(company_id, Refusal):
            return company_id
        if not await insist("companies", lambda: self._keys.knows_company(company_id)):
            return Refusal(Reason.UNKNOWN_COMPANY, "subject: there is no such company")
        return read_arrival(delivery, company_id)

    async def _refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        await self._register.bury(delivery.source, refusal)
        _count(delivery, refusal.reason)
        event(
            log,
            logging.INFO,
            "alert refused",
            subject=delivery.subject,
            stream_seq=delivery.origin.stream_seq,
            reason=refusal.reason,
            detail=refusal.detail,
        )


def _count(delivery: Delivery, result: str) -> None:
    # What came by HTTP was counted there, and a message that comes again was counted before.
    if delivery.header(CONTENT_HASH_HEADER) is None and delivery.origin.num_delivered == 1:
        metrics.ALERTS.labels(metrics.NATS, result).inc()


async def _settle(delivery: Delivery, delay_s: float | None) -> None:
    if delivery.settled:
        return
    if delay_s is None:
        await delivery.ack()
    else:
        await delivery.hand_back(delay_s)
