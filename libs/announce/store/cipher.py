"""Secrets at rest."""

from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class UndecryptableSecret(Exception):  # noqa: N818 - it says what is the case
    """None of the keys opens a stored secret."""


class SecretCipher:
    """Encrypts with the first of its keys and decrypts with any, so that keys rotate."""

    def __init__(self, keys: str) -> None:
        """Take Fernet keys, separated by commas.

        Raises:
            ValueError: there is none, or one isn't a Fernet key.
        """
        try:
            self._fernet: Final = MultiFernet([Fernet(key.strip()) for key in keys.split(",") if key.strip()])
        except ValueError as error:
            raise ValueError(f"BA_SECRET_KEYS: {error}") from None

    def encrypt(self, secret: str) -> bytes:
        """Encrypt for the database."""
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, ciphertext: bytes) -> str:
        """Decrypt what the database holds.

        Raises:
            UndecryptableSecret: it was encrypted with another key.
        """
        try:
            return self._fernet.decrypt(ciphertext).decode()
        except InvalidToken:
            raise UndecryptableSecret("no key of BA_SECRET_KEYS opens it") from None
