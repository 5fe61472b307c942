"""Messages that JetStream has given up: they become dead letters, as whatever else can't be delivered does."""

from announce.bus.publisher import Publisher
from announce.bus.stored import StoredMessage
from announce.delivery.announcement import announcement, announcing_message
from announce.delivery.letter import Attempts, failed_letter, raw_letter
from announce.delivery.metrics import DEAD_LETTERS, ENDED
from announce.model.envelope import Undecodable, decode_envelope
from announce.model.outcome import Rejected
from announce.model.reason import Reason
from announce.model.target import address_of
from announce.store.database import Database
from announce.store.deliveries import DeadLetterRow, DeliveryRecord, Ended, histories, record_deliveries

FAILURE = Rejected(reason=Reason.MAX_DELIVERIES, detail="handed out as often as the consumer allows, never settled")


class DeadEndBurial:
    """Keeps them. Keeping one twice is the same as once."""

    def __init__(self, channel: str, database: Database, publisher: Publisher) -> None:
        self._channel = channel
        self._database = database
        self._publisher = publisher

    async def bury(self, message: StoredMessage) -> None:
        """Write a message's dead letter and announce its end, unless it had ended.

        Raises:
            DatabaseUnavailable: not now.
            BusUnavailable: not now.
        """
        source = message.source
        try:
            envelope = decode_envelope(message.data)
            address = address_of(envelope.target)
        except (Undecodable, KeyError):
            await self._write(raw_letter(source, FAILURE.reason, FAILURE.detail))
            return
        (history,) = await histories(self._database, [envelope])
        if history.ended is None:
            attempts = Attempts(history.attempts, history.first_at or source.published_at)
            letter = failed_letter(source, envelope, address, attempts, FAILURE)
            await self._write(letter)
            end = Ended("failed", address, letter.attempts, letter.reason, None, letter.created_at)
            await self._publisher.publish(announcing_message(message.seq, announcement(envelope, end)))

    async def _write(self, letter: DeadLetterRow) -> None:
        await record_deliveries(self._database, [DeliveryRecord(dead_letter=letter)], again=True)
        ENDED.labels(self._channel, "failed", letter.reason).inc()
        DEAD_LETTERS.labels(self._channel, letter.reason).inc()
