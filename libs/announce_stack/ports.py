import random
import socket
from collections.abc import Collection
from pathlib import Path

from announce_stack.failure import StackError
from announce_stack.readiness import LOOPBACK

LOWEST = 20_000
TRIES = 1_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier listener that linger in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(taken: Collection[int]) -> int:
    """A free port that is not in `taken`.

    It lies below the range that the kernel gives to outgoing connections: a port of that range could be
    taken by any of them while the server that it belongs to is down.

    Raises:
        StackError: none was found.
    """
    highest = max(int(EPHEMERAL_RANGE.read_text().split()[0]), LOWEST + TRIES)
    for _ in range(TRIES):
        port = random.randrange(LOWEST, highest)
        if port not in taken and is_free(port):
            return port
    raise StackError(f"no free port between {LOWEST} and {highest} on {LOOPBACK}")
