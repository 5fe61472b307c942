"""The HTTP client for providers: their hosts are fixed by our settings, so it keeps connections and follows nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Final, Protocol

import aiohttp
from yarl import URL

from announce.model.channel import HttpReply, OutboundRequest, Reply
from announce.outbound.failures import failure_of, timed_out, too_large
from announce.outbound.settings import OutboundSettings

# A request carries what its channel wrote and nothing else.
_NO_AUTO_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class HttpClient(Protocol):
    """Makes calls to providers. A faster library takes its place behind this."""

    async def post(self, request: OutboundRequest, timeout_s: float) -> Reply:
        """Make one call, and read the whole answer, within so many seconds.

        Whatever happens to the connection is part of the reply, in words that hold no part of the request; only
        a cancellation is raised.
        """


class AiohttpClient:
    """The client on aiohttp."""

    def __init__(self, session: aiohttp.ClientSession, max_answer_bytes: int) -> None:
        self._session = session
        self._max_answer_bytes = max_answer_bytes

    async def post(self, request: OutboundRequest, timeout_s: float) -> Reply:
        """Make one call; see `HttpClient`."""
        try:
            # One deadline over connecting, sending and reading: limits on single reads don't bound a body that drips.
            async with asyncio.timeout(timeout_s):
                return await self._exchange(request)
        except TimeoutError:
            return timed_out(timeout_s)
        except (aiohttp.ClientError, OSError) as error:
            return failure_of(error)

    async def _exchange(self, request: OutboundRequest) -> Reply:
        url = _parsed(request.url)
        async with self._session.post(
            url, data=request.body, headers=request.headers, allow_redirects=False
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > self._max_answer_bytes:
                    # Leaving it half read closes the connection.
                    return too_large(self._max_answer_bytes)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return HttpReply(response.status, headers, bytes(body))


@lru_cache(maxsize=64)
def _parsed(url: str) -> URL:
    """Parse a URL once: a channel's calls all go to the same few."""
    return URL(url, encoded=True)


@asynccontextmanager
async def outbound_client(settings: OutboundSettings) -> AsyncIterator[HttpClient]:
    """Open a client; its connections are closed at the end.

    It opens as many connections as calls are under way: how many may be is for the caller to bound, since a
    call that waited for a connection here would spend its time limit on that.
    """
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=settings.keepalive_s)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
        trust_env=False,
        auto_decompress=False,
        skip_auto_headers=_NO_AUTO_HEADERS,
    ) as session:
        yield AiohttpClient(session, settings.max_answer_bytes)
