"""Reading a request's body, and never more of it than it may have."""

import asyncio

from aiohttp import web

from ingestd.problems import body_timeout, compressed, too_large


async def read_body(request: web.Request, limit: int, timeout_s: float) -> bytes:
    """Return the body as it was sent.

    Raises:
        Problem: 408, 413 or 415.
    """
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise compressed()
    refusal = too_large("The body", f"{limit} bytes")
    if request.content_length is not None and request.content_length > limit:
        raise refusal
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limit:
                    raise refusal
    except TimeoutError:
        raise body_timeout(timeout_s) from None
    return bytes(body)
