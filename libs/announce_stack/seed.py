"""`python -m announce_stack.seed`: puts into a fresh database what one needs to use the stack at once."""

import asyncio

from pydantic import SecretStr

from announce.runtime.settings import Settings, load
from announce.store.cipher import SecretCipher
from announce.store.database import database
from announce.store.keyring import create_company, create_key, load_keyring
from announce.store.settings import SecretSettings, StoreSettings


class Demo(Settings):
    """The demo company and its ingest key, and the first operator."""

    demo_company: str
    demo_key_id: str
    demo_secret: SecretStr
    admin_user: str
    admin_password: SecretStr


async def seed(store: StoreSettings, secrets: SecretSettings, demo: Demo) -> None:
    """Creates what isn't there yet, and leaves alone what is.

    Raises:
        ValueError: the secret keys are no Fernet keys.
    """
    cipher = SecretCipher(secrets.secret_keys.get_secret_value())
    async with database(store) as opened:
        await create_company(opened, demo.demo_company, "Demo company")
        keyring = await load_keyring(opened, cipher)
        if demo.demo_key_id not in keyring.keys:
            secret = demo.demo_secret.get_secret_value()
            await create_key(opened, cipher, demo.demo_company, demo.demo_key_id, secret)


if __name__ == "__main__":
    asyncio.run(seed(load(StoreSettings), load(SecretSettings), load(Demo)))
