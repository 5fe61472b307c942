"""Publishing to one stream, acknowledged by JetStream.

With `sync_interval: always` the server syncs once a message, or once an atomic batch: what many callers publish at
the same moment therefore goes out as one batch. A batch costs it four syncs and some files, whatever its size: on one
machine 5k messages/s went one by one, 9k/s in batches of 200, 17k/s in batches of 1000, the most that a batch may have.
"""

import asyncio
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError
from nats.nuid import NUID

from announce.bus.connection import BusUnavailable, Connection
from announce.model.envelope import MSG_ID_HEADER
from announce.runtime.batcher import Batcher

ACK_TIMEOUT_S: Final = 5.0
MAX_BATCH: Final = 1000
WHOLE_BATCH: Final = 100
"""So many messages at once go out by themselves; fewer wait for company."""
TURN: Final = 100
"""After so many messages others get their turn."""
MIN_BATCH: Final = 12
"""Fewer cost less one by one."""
MAX_BATCHES_RUNNING: Final = 4
MAX_GATHERED_RUNNING: Final = 2
"""Of those that gather from many callers: the server takes one after the other anyway, and larger ones faster."""


class _HeaderBlock(str):
    """A header's value together with the headers that follow it.

    nats-py checks and translates each header by itself, which takes longer than all the rest of publishing. These were
    checked when they were put together, so its translation finds nothing to do.
    """

    __slots__ = ()

    def strip(self, _: str | None = None, /) -> str:
        return self

    def translate(self, _: object, /) -> str:
        return self


class OutgoingMessage(NamedTuple):
    """One message. Its id makes publishing it again within the stream's duplicate window harmless."""

    subject: str
    payload: bytes
    msg_id: str
    headers: Mapping[str, str] = {}

    def all_headers(self) -> dict[str, str]:
        """Return the headers with the message's id among them."""
        return {MSG_ID_HEADER: self.msg_id, **self.headers}


class Receipt(NamedTuple):
    """JetStream's word that it holds the message, at `seq`; `duplicate` if it had this id already."""

    seq: int
    duplicate: bool


class _Error(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct):
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


class _BatchRefused(Enum):
    """The batch as a whole was refused, mostly because one of its ids had been seen."""

    REFUSED = 1


_decode_ack: Final = msgspec.json.Decoder(_PubAck).decode


class Publisher:
    """Publishes from any number of callers at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._nuid = NUID()
        self._room = asyncio.Semaphore(MAX_BATCHES_RUNNING)
        self._batcher = Batcher(self._publish, max_items=MAX_BATCH, max_running=MAX_GATHERED_RUNNING)

    async def publish(self, message: OutgoingMessage) -> Receipt:
        """Publish one message.

        Raises:
            BusUnavailable: JetStream can't take it now, or didn't say so in time: then it may hold it all the same.
        """
        receipt = await self._batcher.submit(message)
        if isinstance(receipt, BusUnavailable):
            raise receipt
        return receipt

    async def publish_all(self, messages: Sequence[OutgoingMessage]) -> list[Receipt]:
        """Publish many; every one is held when this returns.

        Raises:
            BusUnavailable: some may be held and some not; publish all of them again.
        """
        receipts = await self.publish_each(messages)
        for receipt in receipts:
            if isinstance(receipt, BusUnavailable):
                raise receipt
        return [receipt for receipt in receipts if isinstance(receipt, Receipt)]

    async def publish_each(self, messages: Sequence[OutgoingMessage]) -> list[Receipt | BusUnavailable]:
        """Publish many, and tell of each one whether JetStream holds it.

        Whoever repeats those that it may not hold, and no others, can do so for longer than the duplicate window.
        """
        if len(messages) < WHOLE_BATCH:
            return await asyncio.gather(*map(self._batcher.submit, messages))
        chunks = [messages[first : first + MAX_BATCH] for first in range(0, len(messages), MAX_BATCH)]
        return list(chain.from_iterable(await asyncio.gather(*map(self._publish, chunks))))

    async def _publish(self, messages: Sequence[OutgoingMessage]) -> Sequence[Receipt | BusUnavailable]:
        async with self._room:
            if len(messages) >= MIN_BATCH:
                receipts = await self._publish_batch(messages)
                if receipts is not _BatchRefused.REFUSED:
                    return receipts
            return await asyncio.gather(*map(self._publish_one, messages))

    async def _publish_batch(self, messages: Sequence[OutgoingMessage]) -> Sequence[Receipt] | _BatchRefused:
        headers = _BatchHeaders(self._nuid.next().decode())
        try:
            client = self._connection.client
            for message in messages[:-1]:
                await client.publish(message.subject, message.payload, headers=headers.next(message))
                if headers.number % TURN == 0:
                    await asyncio.sleep(0)
            last = messages[-1]
            commit = headers.next(last) | {"Nats-Batch-Commit": "1"}
            reply = await client.request(last.subject, last.payload, timeout=ACK_TIMEOUT_S, headers=commit)
        except (NatsError, BusUnavailable):
            return _BatchRefused.REFUSED
        ack = _decode_ack(reply.data)
        if ack.error is not None:
            return _BatchRefused.REFUSED
        first = ack.seq - len(messages) + 1
        return [Receipt(first + place, duplicate=False) for place in range(len(messages))]

    async def _publish_one(self, message: OutgoingMessage) -> Receipt | BusUnavailable:
        try:
            reply = await self._connection.client.request(
                message.subject, message.payload, timeout=ACK_TIMEOUT_S, headers=message.all_headers()
            )
        except BusUnavailable as error:
            return error
        except MaxPayloadError:
            return BusUnavailable("the message is larger than NATS takes")
        except NatsError as error:
            return BusUnavailable(f"JetStream didn't acknowledge: {type(error).__name__}", unsure=True)
        ack = _decode_ack(reply.data)
        if ack.error is not None:
            return BusUnavailable(f"JetStream refused: {ack.error.description} ({ack.error.err_code})")
        return Receipt(ack.seq, ack.duplicate)


class _BatchHeaders:
    """Makes the headers of a batch's messages, one after the other."""

    def __init__(self, batch_id: str) -> None:
        self.number = 0
        self._batch_id = batch_id
        self._own: Mapping[str, str] | None = None
        self._shared = ""

    def next(self, message: OutgoingMessage) -> dict[str, str]:
        self.number += 1
        # Messages of one fan-out have their own headers in common.
        if message.headers is not self._own:
            self._own = message.headers
            self._shared = _lines({**message.headers, "Nats-Batch-Id": self._batch_id})
        first = f"{_one_line(message.msg_id)}\r\nNats-Batch-Sequence: {self.number}{self._shared}"
        return {MSG_ID_HEADER: _HeaderBlock(first)}


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"\r\n{_one_line(name)}: {_one_line(value)}" for name, value in headers.items())


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("a header must be one line")
    return text
