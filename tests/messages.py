"""Messages as JetStream hands them out, without a JetStream."""

from collections.abc import Mapping

from nats.aio.client import Client
from nats.aio.msg import Msg

from announce.bus.consumer import Delivery


def message(
    subject: str, *, seq: int = 1, num_delivered: int = 1, data: bytes = b"", headers: Mapping[str, str] | None = None
) -> Delivery:
    """Make one. Its client isn't connected, so nobody hears that it is settled."""
    reply = f"$JS.ACK.BA_DELIVER.deliverd-fcm.{num_delivered}.{seq}.{seq}.1796083200000000000.0"
    client = Client()
    return Delivery(client, Msg(client, subject, reply, data, dict(headers or {})), lambda _: None)
