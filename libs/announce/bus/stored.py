"""Looking at one message that a stream holds."""

from collections.abc import Mapping
from dataclasses import dataclass

from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from announce.bus.connection import BusUnavailable, Connection


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as it was published."""

    subject: str
    data: bytes
    headers: Mapping[str, str]


async def stored_message(connection: Connection, stream: str, seq: int) -> StoredMessage | None:
    """Return message `seq` of a stream, or None when the stream doesn't hold it any more.

    Raises:
        BusUnavailable: JetStream can't be asked now.
    """
    try:
        found = await connection.client.jetstream().get_msg(stream, seq)
    except NotFoundError:
        return None
    except NatsError as error:
        raise BusUnavailable(f"JetStream didn't show the message: {type(error).__name__}") from None
    # nats-py gives a value that isn't ASCII as an object of the email package.
    headers = {name: str(value) for name, value in (found.headers or {}).items()}
    return StoredMessage(found.subject or "", found.data or b"", headers)
