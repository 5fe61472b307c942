"""What a fake is made of: how it reads a call and how it answers one."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import msgspec
from aiohttp import web

from announce_fakes.script import Script

JSON = "application/json; charset=UTF-8"
_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, frozen=True, gc=False):
    """An HTTP answer."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}

    @classmethod
    def of(cls, status: int, content: object) -> "Reply":
        """An answer whose body is `content` as JSON."""
        return cls(status, _encode(content))


class Call(msgspec.Struct):
    """A message that a client asks the provider to take.

    Attributes:
        target: Who it is for, as text; empty when the request doesn't say.
        key: What makes it the same message when it comes again. Empty: it is no message (a dry run), and its
            success isn't counted as an acceptance.
        path: The request's path and query, as they are shown later.
        body: The request's content, likewise.
        answer: Processes the call as the provider would, and answers it.
        verdict: What was found about its signature, where one is checked.
    """

    target: str
    key: str
    path: str
    body: bytes
    answer: Callable[[], Reply]
    verdict: str = ""


S = TypeVar("S", bound=Script)
S_contra = TypeVar("S_contra", bound=Script, contravariant=True)


class Contract(Protocol, Generic[S_contra]):
    """A provider's side of the contract for one kind of call."""

    def read(self, request: web.BaseRequest, body: bytes) -> Call | Reply:
        """Reads a call; a reply instead means that the request is none and gets this answer."""

    def refuse(self, script: S_contra) -> Reply:
        """The provider's own error for what a script asks for.

        Raises:
            ScriptError: The provider has no such error.
        """


def content_key(target: str, content: bytes) -> str:
    """What makes it the same message when nothing gives its id: the same content to the same target."""
    return f"{target}:{blake2b(content, digest_size=8).hexdigest()}"


def phrase(status: int) -> str:
    """A status in words."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
