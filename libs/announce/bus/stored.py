"""Looking at, and deleting, single messages that a stream holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from nats.errors import Error as NatsError
from nats.js.api import RawStreamMsg
from nats.js.errors import Error as JetStreamError
from nats.js.errors import NotFoundError

from announce.bus.connection import BusUnavailable, Connection
from announce.bus.source import Source
from announce.bus.streams import DELIVER


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it was published, and its place in the stream."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    seq: int
    published_at: datetime

    @property
    def source(self) -> Source:
        """What it was published as."""
        return Source(self.subject, self.data, self.seq, self.published_at)


async def stored_message(connection: Connection, stream: str, seq: int) -> StoredMessage | None:
    """Return message `seq` of a stream, or None when the stream doesn't hold it any more.

    Raises:
        BusUnavailable: JetStream can't be asked now.
    """
    return await _find(connection, stream, seq)


async def next_message(connection: Connection, stream: str, subject: str, seq: int) -> StoredMessage | None:
    """Return the first message at or after `seq` on a subject, which may have wildcards, or None when there is none.

    Raises:
        BusUnavailable: JetStream can't be asked now.
    """
    return await _find(connection, stream, seq, subject)


async def oldest_waiting(connection: Connection, subject: str) -> datetime | None:
    """Return when the oldest delivery that waits on a subject such as `ba.deliver.fcm.*` was published, if one does.

    Those that a worker holds or has parked wait too; those that were put off don't.

    Raises:
        BusUnavailable: JetStream can't be asked now.
    """
    oldest = await next_message(connection, DELIVER, subject, 1)
    return oldest.published_at if oldest else None


async def waiting_subjects(connection: Connection, subject: str) -> set[str]:
    """Return the subjects of BA_DELIVER within a filter such as `ba.deliver.fcm.*` that have messages.

    Raises:
        BusUnavailable: JetStream can't be asked now.
    """
    try:
        info = await connection.client.jetstream().stream_info(DELIVER, subjects_filter=subject)
    except NatsError as error:
        raise BusUnavailable(f"JetStream didn't show the stream: {type(error).__name__}") from None
    return set(info.state.subjects or {})


async def delete_message(connection: Connection, stream: str, seq: int) -> None:
    """Delete message `seq` of a stream, if it is still there.

    Raises:
        BusUnavailable: JetStream can't be asked now, or didn't say in time that it has done it.
    """
    try:
        await connection.client.jetstream().delete_msg(stream, seq)
    except JetStreamError as error:
        # JetStream answers to a number that is gone with an error of many meanings.
        if await stored_message(connection, stream, seq) is not None:
            raise BusUnavailable(f"JetStream didn't delete the message: {type(error).__name__}") from None
    except NatsError as error:
        raise BusUnavailable(f"JetStream didn't delete the message: {type(error).__name__}") from None


async def _find(connection: Connection, stream: str, seq: int, subject: str | None = None) -> StoredMessage | None:
    try:
        found = await connection.client.jetstream().get_msg(stream, seq, subject, next=subject is not None)
    except NotFoundError:
        return None
    except NatsError as error:
        raise BusUnavailable(f"JetStream didn't show the message: {type(error).__name__}") from None
    return _stored(found)


def _stored(found: RawStreamMsg) -> StoredMessage:
    # nats-py gives a value that isn't ASCII as an object of the email package.
    headers = {name: str(value) for name, value in (found.headers or {}).items()}
    published_at = found.time or datetime.fromtimestamp(0, UTC)
    return StoredMessage(found.subject or "", found.data or b"", headers, found.seq or 0, published_at)
