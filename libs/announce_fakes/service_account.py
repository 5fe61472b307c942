import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

_KEY_BITS = 2048
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServiceAccount(msgspec.Struct, kw_only=True, frozen=True):
    """A Google service account's key file.

    Attributes:
        private_key: PKCS 8, PEM.
        token_uri: Where assertions are exchanged for access tokens, and their audience.
    """

    type: str = "service_account"
    project_id: str = "demo-project"
    private_key_id: str
    private_key: str
    client_email: str = "announce@demo-project.iam.gserviceaccount.com"
    client_id: str = "100000000000000000001"
    token_uri: str

    @classmethod
    def generate(cls, token_uri: str) -> "ServiceAccount":
        """A new account with a fresh RSA key."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(private_key_id=secrets.token_hex(20), private_key=pem.decode(), token_uri=token_uri)

    def public_key(self) -> rsa.RSAPublicKey:
        """The key that verifies what the account signs.

        Raises:
            ValueError: The account's key is no RSA key in PEM.
        """
        try:
            # Checking that the numbers are primes takes 50 ms; a wrong key verifies nothing anyway.
            key = serialization.load_pem_private_key(
                self.private_key.encode(), password=None, unsafe_skip_rsa_key_validation=True
            )
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError("private_key: must be an RSA key in PEM")  # noqa: TRY004  the file's content is wrong
        return key.public_key()


def read_or_create(path: Path, token_uri: str, *, exact: bool = False) -> ServiceAccount:
    """Reads an account's key file, or writes one when there is none.

    A `token_uri` on loopback is one that a fake wrote; since ports are often free ones, it is brought up to
    date. Any other is somebody's choice and stays, unless `exact` asks for the given one.

    Raises:
        ValueError: The file is no service account's key file.
    """
    if not path.exists():
        account = ServiceAccount.generate(token_uri)
    else:
        try:
            account = msgspec.json.decode(path.read_bytes(), type=ServiceAccount)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path}: no service account's key file: {error}") from None
        if account.token_uri == token_uri or not (exact or urlsplit(account.token_uri).hostname in _LOOPBACK):
            return account
        account = msgspec.structs.replace(account, token_uri=token_uri)
    _write(path, account)
    return account


def _write(path: Path, account: ServiceAccount) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(account)))
    draft.replace(path)
