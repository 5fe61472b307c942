"""FCM's access token: fetched once for all who need it, and renewed before it ends."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from announce.model.channel import CredentialUnavailable
from announce.model.outcome import ChannelFault
from announce.observe.logging import event
from announce.outbound.client import HttpClient
from announce.runtime.backoff import Backoff
from deliverd_fcm.oauth import Grant, NoGrant, read_token, token_request
from deliverd_fcm.service_account import ServiceAccount

log = logging.getLogger(__name__)

RENEW_BEFORE_S: Final = 225.0
"""How long before its end a token is renewed; Google's own libraries take 3 min 45 s."""
FETCH_TIMEOUT_S: Final = 10.0
MAX_HOLD_OFF_S: Final = 300.0
"""Longest time for which the endpoint is left alone because it asked for that."""


@dataclass(frozen=True, slots=True)
class _Token:
    value: str
    renew_at: float
    ends_at: float


class ServiceAccountTokens:
    """The source of FCM's credentials.

    A token that is about to end is still handed out while a new one is fetched in the background. After a failure
    the endpoint is left alone for a while, and whoever asks meanwhile hears of that failure.

    Args:
        account: who asks for tokens.
        client: makes the calls.
        clock: monotonic seconds.
    """

    def __init__(
        self, account: ServiceAccount, client: HttpClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._account = account
        self._client = client
        self._clock = clock
        self._token: _Token | None = None
        self._flight: asyncio.Task[_Token | ChannelFault] | None = None
        self._fault: ChannelFault | None = None
        self._again_at = 0.0
        self._backoff = Backoff(first_s=0.5, cap_s=10.0)

    async def current(self) -> str:
        """Return a token that is believed to be good.

        Raises:
            CredentialUnavailable: the account is refused, or the endpoint can't be asked.
        """
        now, token = self._clock(), self._token
        if token is not None and now < token.ends_at:
            if now >= token.renew_at and now >= self._again_at:
                self._fetch()
            return token.value
        if self._fault is not None and now < self._again_at:
            raise CredentialUnavailable(self._fault)
        # Shielded: whoever gives up waiting must not end the fetch for the others.
        fetched = await asyncio.shield(self._fetch())
        if isinstance(fetched, _Token):
            return fetched.value
        raise CredentialUnavailable(fetched)

    def refuse(self, credential: str) -> None:
        """Drop a token that FCM refused, unless it has been replaced already."""
        if self._token is not None and self._token.value == credential:
            self._token = None

    def _fetch(self) -> asyncio.Task[_Token | ChannelFault]:
        """Join the fetch that is under way, or start one."""
        if self._flight is None:
            self._flight = asyncio.create_task(self._fetch_once())
        return self._flight

    async def _fetch_once(self) -> _Token | ChannelFault:
        try:
            asked_at = self._clock()
            # The claims are about the world's time, the token's end about ours.
            request = token_request(self._account, int(time.time()))
            answer = read_token(await self._client.post(request, FETCH_TIMEOUT_S))
            return self._take(answer, asked_at) if isinstance(answer, Grant) else self._give_up(answer)
        finally:
            self._flight = None

    def _take(self, grant: Grant, asked_at: float) -> _Token:
        ends_at = asked_at + grant.expires_in
        # A short-lived token would otherwise be renewed all the time.
        renew_at = ends_at - min(RENEW_BEFORE_S, grant.expires_in / 2)
        self._token = _Token(grant.access_token, renew_at, ends_at)
        self._fault, self._again_at = None, 0.0
        self._backoff.reset()
        event(log, logging.INFO, "access token fetched", lifetime_s=grant.expires_in)
        return self._token

    def _give_up(self, refusal: NoGrant) -> ChannelFault:
        self._fault = refusal.fault
        self._again_at = self._clock() + max(self._backoff.next(), min(refusal.retry_after_s, MAX_HOLD_OFF_S))
        event(log, logging.WARNING, "access token not fetched", reason=self._fault.reason, error=self._fault.detail)
        return self._fault
