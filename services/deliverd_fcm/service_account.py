"""A Google service account's key file."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec import Struct

from announce.outbound.settings import http_url

_TYPE: Final = "service_account"
_PROJECT_ID: Final = re.compile(r"[a-z0-9][a-z0-9.:-]*\Z")


class _KeyFile(Struct):
    type: str
    project_id: str
    private_key_id: str
    private_key: str
    client_email: str
    token_uri: str


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """Who we are to Google, and how we prove it."""

    project_id: str
    client_email: str
    key_id: str
    key: RSAPrivateKey
    token_uri: str


def read_service_account(path: str | Path) -> ServiceAccount:
    """Read a key file as Google's console makes it.

    Raises:
        ValueError: it can't be read, or isn't one; the text says why and repeats nothing of the file.
    """
    try:
        content = msgspec.json.decode(Path(path).read_bytes(), type=_KeyFile)
    except OSError as error:
        raise ValueError(f"the file can't be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"the file is not a service account's key file: {error}") from None
    if content.type != _TYPE:
        raise ValueError(f"the file is not a service account's key file: its type must be {_TYPE!r}")
    if not _PROJECT_ID.match(content.project_id):
        raise ValueError("the file's project_id must be a project's id, such as my-project-1")
    return ServiceAccount(
        project_id=content.project_id,
        client_email=content.client_email,
        key_id=content.private_key_id,
        key=_read_key(content.private_key),
        token_uri=_read_token_uri(content.token_uri),
    )


def _read_key(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the file's private_key can't be read: it must be a PEM key without a password") from None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("the file's private_key must be an RSA key")  # noqa: TRY004 - the file's content is wrong
    return key


def _read_token_uri(uri: str) -> str:
    try:
        return http_url(uri)
    except ValueError as error:
        raise ValueError(f"the file's token_uri {error}") from None
