"""What went wrong with a call, in words of our own: a library's exceptions hold URLs, and a URL may hold a token."""

import errno
import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp

from announce.model.channel import TransportFailure, TransportFault

# The first that fits counts: some of these are kinds of OSError, whose number then says less.
_KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorDNSError, "name not resolved"),
    (aiohttp.ClientConnectorCertificateError, "TLS: certificate verify failed"),
    (aiohttp.ClientSSLError, "TLS: handshake failed"),
    (ssl.SSLError, "TLS: connection failed"),
    (aiohttp.ServerDisconnectedError, "connection closed without an answer"),
    (aiohttp.ClientPayloadError, "connection closed within the answer"),
    (ConnectionResetError, "connection reset"),
)
_ERRNOS: Final[Mapping[int, str]] = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ETIMEDOUT: "connection timed out",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "network unreachable",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
}


def timed_out(timeout_s: float) -> TransportFailure:
    """Say that the whole answer wasn't there in time."""
    return TransportFailure(TransportFault.TIMEOUT, f"no answer within {timeout_s:g} s")


def too_large(max_bytes: int) -> TransportFailure:
    """Say that the answer was longer than what is read."""
    return TransportFailure(TransportFault.ANSWER_TOO_LARGE, f"answer longer than {max_bytes} bytes")


def failure_of(error: aiohttp.ClientError | OSError) -> TransportFailure:
    """Say what an exception of a call means, from a fixed set of texts."""
    if isinstance(error, aiohttp.ClientResponseError):
        return TransportFailure(TransportFault.ANSWER_UNREADABLE, "answer is not HTTP")
    for kind, detail in _KINDS:
        if isinstance(error, kind):
            return TransportFailure(TransportFault.CONNECTION_FAILED, detail)
    known = _ERRNOS.get(error.errno or 0) if isinstance(error, OSError) else None
    return TransportFailure(TransportFault.CONNECTION_FAILED, known or "connection failed")
