"""What a channel is: two pure functions and a source of credentials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from announce.model.envelope import Envelope
from announce.model.outcome import ChannelFault, Outcome


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """One POST to a provider."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer, cut at the client's limit. Header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class TransportFault(StrEnum):
    """How a call failed without an answer that can be read."""

    TIMEOUT = "timeout"
    CONNECTION_FAILED = "connection_failed"
    ANSWER_TOO_LARGE = "answer_too_large"
    ANSWER_UNREADABLE = "answer_unreadable"


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """No answer. `detail` never holds a URL or an address: Telegram's token is in its URL."""

    fault: TransportFault
    detail: str


Reply = HttpReply | TransportFailure


class Channel(Protocol):
    """Writes requests to one provider and reads its replies, without any I/O."""

    @property
    def name(self) -> str:
        """The channel's name in subjects, rows and metrics."""

    @property
    def timeout_s(self) -> float:
        """How long one attempt may take."""

    def build_request(self, envelope: Envelope, credential: str, plain: bool, /) -> OutboundRequest:  # noqa: FBT001
        """Write the call that delivers this envelope.

        Args:
            envelope: what to deliver.
            credential: what the provider knows us by.
            plain: without markup: the provider could not read it. A channel that has none ignores this.

        Raises:
            ValueError: the envelope can't be written as a request of this provider; the text says why.
        """

    def classify(self, reply: Reply) -> Outcome:
        """Read what the provider's reply means."""


class CredentialUnavailable(Exception):  # noqa: N818 - it says what is the case
    """No credential can be had now, which holds up every delivery alike. The text says why, without secrets."""

    def __init__(self, outcome: ChannelFault) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


class CredentialSource(Protocol):
    """Where a channel's credential comes from."""

    async def current(self) -> str:
        """Return a credential that is believed to be good.

        Raises:
            CredentialUnavailable: none can be had; it carries the fault that holds the channel up.
        """

    def refuse(self, credential: str) -> None:
        """Say that the provider refused this credential, so that the next one is fresh."""
