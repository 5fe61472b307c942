"""Companies and their keys, in memory: ingest goes on with them while the database is away."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

from announce.observe.health import Health
from announce.observe.logging import event
from announce.runtime.backoff import Backoff
from announce.runtime.batcher import Batcher
from announce.store.cipher import SecretCipher, UndecryptableSecret
from announce.store.database import Database, DatabaseUnavailable
from announce.store.keyring import Keyring, keyring_changes, load_keyring
from ingestd import metrics

log = logging.getLogger(__name__)

DEPENDENCY: Final = "keyring"
"""Whether there is a keyring at all."""
UPDATES: Final = "keyring_updates"
"""Whether the keyring is up to date."""


class Keys:
    """Keeps the keyring in step with the database, and the last one when that can't be had."""

    def __init__(self, database: Database, cipher: SecretCipher, health: Health, reload_s: float) -> None:
        self._database = database
        self._cipher = cipher
        self._health = health
        self._reload_s = reload_s
        self._loads = Batcher[None, None](self._load, max_items=1_000_000)
        self._loaded = asyncio.Event()
        self._trouble: str | None = None
        self.current: Keyring | None = None

    async def keep(self) -> None:
        """Load anew whenever something has changed. Ends by cancellation."""
        backoff = Backoff()
        while True:
            try:
                async with aclosing(keyring_changes(self._database, self._reload_s)) as changes:
                    async for _ in changes:
                        await self._loads.submit(None)
                        backoff.reset()
            except DatabaseUnavailable as error:
                self._report(f"the database is unavailable: {error}")
            except UndecryptableSecret as error:
                self._report(f"an ingest key can't be decrypted: {error}")
            await asyncio.sleep(backoff.next())

    async def knows_company(self, company_id: str) -> bool:
        """Tell whether there is such a company; look again before saying that there is none.

        Raises:
            DatabaseUnavailable: it isn't among those that are known, and looking again failed.
        """
        await self._loaded.wait()
        if not self._lists(company_id):
            with suppress(UndecryptableSecret):
                await self._loads.submit(None)
        return self._lists(company_id)

    def rate_of(self, company_id: str) -> float | None:
        """Return a company's own rate of alerts a second, if it has one."""
        return self.current.rates.get(company_id) if self.current else None

    def _lists(self, company_id: str) -> bool:
        return self.current is not None and company_id in self.current.rates

    async def _load(self, callers: Sequence[None]) -> Sequence[None]:
        self.current = await load_keyring(self._database, self._cipher)
        self._loaded.set()
        self._trouble = None
        metrics.KEYRING_LOADED.set_to_current_time()
        self._health.up(DEPENDENCY)
        self._health.up(UPDATES)
        return callers

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            event(log, logging.WARNING, "keyring not loaded", error=trouble, kept=self.current is not None)
        self._trouble = trouble
        self._health.down(UPDATES, trouble)
        if self.current is None:
            self._health.down(DEPENDENCY, trouble)
