"""What is known of a message wherever it comes from: handed out by a consumer, or looked up in its stream."""

from datetime import datetime
from typing import NamedTuple


class Source(NamedTuple):
    """A message as it was published: on which subject, with what payload, at which place of its stream, and when."""

    subject: str
    data: bytes
    seq: int
    published_at: datetime
