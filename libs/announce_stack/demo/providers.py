"""The fake providers: told to fail, and asked what reached them."""

from collections.abc import Mapping
from typing import Any

from aiohttp import ClientSession

from announce_stack.demo.sending import Call

NEWEST = 1000
SUCCESS = range(200, 300)


class Providers:
    """The fake FCM and the fake Telegram of one stack."""

    def __init__(self, session: ClientSession, environment: Mapping[str, str]) -> None:
        self._session = session
        self._fcm = environment["BA_FAKE_FCM_URL"]
        self._telegram = environment["BA_FAKE_TELEGRAM_URL"]

    async def script_fcm(self, rule: Mapping[str, str | int]) -> None:
        """Makes the fake FCM treat some calls in another way; see /control.

        Raises:
            ClientError: it is away, or doesn't know such a rule.
        """
        async with self._session.post(f"{self._fcm}/control", params=rule, raise_for_status=True):
            pass

    async def calls(self) -> list[Call]:
        """The newest messages that reached either of them.

        Raises:
            ClientError: one of them is away.
        """
        entries = [entry for url in (self._fcm, self._telegram) for entry in await self._received(url)]
        return [Call(entry["id"], entry["status"] in SUCCESS, entry["mono_us"]) for entry in entries]

    async def _received(self, url: str) -> list[dict[str, Any]]:
        async with self._session.get(f"{url}/received", params={"limit": NEWEST}, raise_for_status=True) as response:
            content: dict[str, list[dict[str, Any]]] = await response.json()
            return content["received"]
