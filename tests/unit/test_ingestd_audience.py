from datetime import UTC, datetime, timedelta

import pytest

from announce.model.alert import parse_alert
from announce.model.envelope import decode_envelope
from announce.model.identity import delivery_id
from announce.store.alerts import AcceptedAlert, AlertKey
from announce.store.subscriptions import Recipient
from ingestd.arrival import Arrived
from ingestd.audience import Addressee, Mailing, named_targets, subscribers

NOW = datetime.now(UTC)
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


def arrived(raw: bytes = b'{"title":"Disk full","body":"db-3","data":{"k":"v"},"ttl_s":60}') -> Arrived:
    alert = parse_alert(raw)
    record = AcceptedAlert(
        AlertKey("acme", "a-1"), NOW, 1, b"", alert.severity, alert.title, alert.expiry(NOW), b"{}", TRACE
    )
    return Arrived(alert, record)


def test_an_alert_s_own_targets_count_once_for_each_address() -> None:
    raw = (
        b'{"title":"t","targets":['
        b'{"channel":"fcm","token":"7"},{"channel":"telegram","chat_id":7},{"channel":"fcm","token":"7"},'
        b'{"channel":"telegram","chat_id":7,"message_thread_id":3},{"channel":"fcm","topic":"news"}]}'
    )
    assert named_targets(parse_alert(raw)) == [
        Addressee("fcm", "7", {"channel": "fcm", "token": "7"}),
        Addressee("telegram", "7", {"channel": "telegram", "chat_id": 7}),
        Addressee("telegram", "7/3", {"channel": "telegram", "chat_id": 7, "message_thread_id": 3}),
        Addressee("fcm", "/topics/news", {"channel": "fcm", "topic": "news"}),
    ]


def test_an_envelope_carries_the_alert_to_one_target() -> None:
    (message,) = Mailing(arrived()).to([Addressee("fcm", "tok", {"channel": "fcm", "token": "tok"})])
    envelope = decode_envelope(message.payload)
    assert message.subject == "ba.deliver.fcm.acme"
    assert envelope.delivery_id == delivery_id("acme", "a-1", "fcm", "tok")
    assert message.msg_id == envelope.delivery_id.hex
    assert message.headers["traceparent"] == TRACE
    assert (envelope.message.title, envelope.message.body, envelope.message.data) == ("Disk full", "db-3", {"k": "v"})
    assert (envelope.created_at, envelope.expires_at) == (NOW, NOW + timedelta(seconds=60))
    assert envelope.replay_of is None


def test_the_same_fan_out_twice_writes_the_same() -> None:
    addressees = list(subscribers([Recipient(1, "fcm", "tok"), Recipient(2, "telegram", "@news/5")]))
    assert Mailing(arrived()).to(addressees) == Mailing(arrived()).to(addressees)


def test_a_subscription_that_cannot_be_read_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    recipients = [Recipient(1, "pager", "1"), Recipient(2, "telegram", "secret-name"), Recipient(3, "fcm", "tok")]
    assert [each.address for each in subscribers(recipients)] == ["tok"]
    assert [record.message for record in caplog.records] == ["subscription unreadable"] * 2
    assert "secret-name" not in str([record.__dict__ for record in caplog.records])
