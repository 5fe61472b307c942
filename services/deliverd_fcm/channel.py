"""FCM HTTP v1: how a delivery is asked for, and what the reply means. Pure."""

from dataclasses import dataclass

from announce.model.channel import OutboundRequest, Reply, TransportFailure
from announce.model.envelope import Envelope
from announce.model.outcome import Outcome
from announce.model.replies import transport_outcome
from deliverd_fcm.answer import read_answer
from deliverd_fcm.message import encode_message


@dataclass(frozen=True, slots=True)
class FcmChannel:
    """One Firebase project.

    Args:
        base_url: FCM's address.
        project_id: the project whose apps receive.
        timeout_s: how long one attempt may take.
    """

    base_url: str
    project_id: str
    timeout_s: float

    @property
    def name(self) -> str:
        """The channel's name."""
        return "fcm"

    def build_request(self, envelope: Envelope, credential: str, _plain: bool, /) -> OutboundRequest:  # noqa: FBT001
        """Write messages:send for this envelope. The credential is an OAuth access token; markup there is none.

        Raises:
            ValueError: FCM wouldn't take it; the text names the field and the rule.
        """
        return OutboundRequest(
            url=f"{self.base_url}/v1/projects/{self.project_id}/messages:send",
            headers={"Authorization": f"Bearer {credential}", "Content-Type": "application/json"},
            body=encode_message(envelope),
        )

    def classify(self, reply: Reply) -> Outcome:
        """Read what FCM's reply means."""
        return transport_outcome(reply) if isinstance(reply, TransportFailure) else read_answer(reply)
