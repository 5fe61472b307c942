"""W3C trace context: the `traceparent` that travels from the producer to the provider call."""

import random
import re

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")


def continue_trace(received: str | None) -> str:
    """Return a traceparent for our part of a trace: the received one's child, or a new root."""
    span = f"{random.getrandbits(64) | 1:016x}"
    if received is not None and _TRACEPARENT.match(received):
        return f"{received[:36]}{span}{received[52:]}"
    return f"00-{random.getrandbits(128) | 1:032x}-{span}-01"
