"""What one attempt came to. A channel classifies; the pipeline decides what follows."""

from dataclasses import dataclass

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
class CredentialRefused(_Failure):
    """The credential is no longer good: get a fresh one and try again, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFault(_Failure):
    """Our configuration is at fault, so every delivery of the channel would fail alike."""


Failure = Transient | Rejected | TargetGone | CredentialRefused | ChannelFault
Outcome = Delivered | Failure
