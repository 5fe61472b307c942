"""What is announced of a delivery's end, on `ba.outcomes.<company>`."""

from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from announce.model.reason import Reason

Ending = Literal["sent", "failed", "expired"]


class OutcomeEvent(Struct, frozen=True, kw_only=True):
    """A delivery's end. `attempts` counts the calls made; `reason` says why it failed or expired."""

    v: Literal[1] = 1
    delivery_id: UUID
    alert_id: str
    company_id: str
    channel: str
    target: str
    """As an address, as in the rows."""
    status: Ending
    reason: Reason | None
    status_code: int | None
    attempts: int
    occurred_at: datetime
    replay_of: UUID | None


encode_outcome_event: Final = msgspec.json.Encoder().encode
