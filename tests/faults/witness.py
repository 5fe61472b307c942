"""Somebody who listens to what a channel's consumer is told of its messages."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg

from announce.bus.streams import DELIVER

STILL_AT_WORK: Final = b"+WPI"


@dataclass(slots=True)
class Witness:
    """How often each message, each time that it was handed out, was settled: each time has a subject of its own."""

    settled: Counter[str] = field(default_factory=Counter)
    words: Counter[bytes] = field(default_factory=Counter)

    async def hear(self, msg: Msg) -> None:
        word = msg.data[:4]
        if word != STILL_AT_WORK:
            self.settled[msg.subject] += 1
            self.words[word] += 1

    def twice(self) -> list[str]:
        return [subject for subject, times in self.settled.items() if times > 1]


@asynccontextmanager
async def witness(client: Client, durable: str) -> AsyncIterator[Witness]:
    """Listen for the length of the block. JetStream doesn't notice: acknowledgements are messages like any other."""
    listening = Witness()
    subscriptions = [
        await client.subscribe(f"$JS.ACK.{form}{DELIVER}.{durable}.>", cb=listening.hear) for form in ("", "*.*.")
    ]
    await client.flush()
    try:
        yield listening
    finally:
        for subscription in subscriptions:
            if client.is_connected:
                await subscription.unsubscribe()
