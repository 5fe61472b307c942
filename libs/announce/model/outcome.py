"""What one attempt came to. A channel classifies; the pipeline decides what follows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from announce.model.reason import Reason


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider took it."""

    provider_message_id: str | None = None
    status_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    reason: Reason
    detail: str
    """For operators; free of credentials and addresses."""
    status_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient(_Failure):
    """Another try may succeed; not before `retry_after_s` when the provider said so."""

    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(_Failure):
    """No try of this message to this target will ever succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetGone(_Failure):
    """No message to this target will ever succeed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMoved(_Failure):
    """The target has become another one: send once more, to that one, and remember it."""

    # An address; whoever writes an outcome down must not write that.
    moved_to: Mapping[str, str | int] = field(repr=False, hash=False)
    """The fields of the envelope's target that have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkupRefused(_Failure):
    """The provider couldn't read our markup: send once more, as plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRefused(_Failure):
    """The credential is no longer good: get a fresh one and try again, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFault(_Failure):
    """Our configuration is at fault, so every delivery of the channel would fail alike."""


Failure = Transient | Rejected | TargetGone | TargetMoved | MarkupRefused | CredentialRefused | ChannelFault
Outcome = Delivered | Failure
