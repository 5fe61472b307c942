"""Taking an alert in: it is accepted once JetStream has acknowledged it."""

import asyncio
from contextlib import suppress
from enum import StrEnum

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.publisher import Publisher
from announce.bus.stored import StoredMessage, stored_message
from announce.bus.streams import ALERTS, alerts_subject
from announce.model.alert import ForeignCompany, InvalidAlert, NotJson, parse_company_alert
from announce.store.alerts import AlertKey
from ingestd.lookup import CannotTell, DedupeLookup
from ingestd.offer import CONTENT_HASH_HEADER, Offer
from ingestd.problems import alert_id_reused, unavailable
from ingestd.recent import RecentAlerts


class Verdict(StrEnum):
    """What became of an alert that was taken in."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"


class Acceptance:
    """Takes alerts in, one at a time for each id, and tells which came before.

    Whatever it can't tell is left to the table's dedupe behind JetStream: in doubt it publishes.
    """

    def __init__(
        self, connection: Connection, publisher: Publisher, lookup: DedupeLookup, recent: RecentAlerts
    ) -> None:
        self._connection = connection
        self._publisher = publisher
        self._lookup = lookup
        self._recent = recent
        self._under_way: dict[AlertKey, asyncio.Event] = {}

    async def take(self, offer: Offer) -> Verdict:
        """Take an alert in.

        Raises:
            Problem: 409, its id was used for other content; 503, JetStream can't take it.
        """
        while earlier := self._under_way.get(offer.key):
            await earlier.wait()
        ended = self._under_way[offer.key] = asyncio.Event()
        try:
            return await self._decide(offer)
        except BusUnavailable as error:
            raise unavailable(f"The alert can't be kept now: {error}.") from None
        finally:
            del self._under_way[offer.key]
            ended.set()

    async def _decide(self, offer: Offer) -> Verdict:
        known = self._recent.content_hash(offer.key) or await self._registered_hash(offer.key)
        if known is None:
            receipt = await self._publisher.publish(offer.message())
            if receipt.duplicate:
                known = await self._earlier_hash(offer, receipt.seq)
        if known is None:
            self._recent.remember(offer.key, offer.content_hash)
            return Verdict.ACCEPTED
        if known != offer.content_hash:
            raise alert_id_reused()
        return Verdict.DUPLICATE

    async def _registered_hash(self, key: AlertKey) -> bytes | None:
        with suppress(CannotTell):
            return await self._lookup.content_hash(key)
        return None

    async def _earlier_hash(self, offer: Offer, seq: int) -> bytes | None:
        """Find the content of the alert as whose duplicate JetStream dropped this one; None if it was none."""
        certain = True
        # In this order: an alert leaves the stream only after the table has it.
        stored = await stored_message(self._connection, ALERTS, seq)
        try:
            known = _content_hash(stored, offer.key) if stored else await self._lookup.content_hash(offer.key)
        except CannotTell:
            known, certain = None, False
        if known is not None:
            return known
        # Any producer can write any id into the header that JetStream compares, so it may have been another's message.
        # The content makes an id that nobody comes upon by accident; if it is a duplicate, the table still drops it.
        again = await self._publisher.publish(offer.message(f"{':'.join(offer.key)}:{offer.content_hash.hex()}"))
        return None if certain and not again.duplicate else offer.content_hash


def _content_hash(stored: StoredMessage, key: AlertKey) -> bytes | None:
    """Return the hash of a stored message's content, or None if it isn't the alert of this name."""
    if stored.subject != alerts_subject(key.company_id):
        return None
    try:
        alert = parse_company_alert(stored.data, key.company_id)
        given = stored.headers.get(CONTENT_HASH_HEADER)
        content_hash = bytes.fromhex(given) if given else alert.content_hash()
    except (NotJson, InvalidAlert, ForeignCompany, ValueError):
        return None
    # One without an id of its own is named by the same header.
    return content_hash if alert.alert_id in (None, key.alert_id) else None
