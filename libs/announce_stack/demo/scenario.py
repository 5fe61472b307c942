"""The alerts that the demo sends, in their order, and what should become of each."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from announce.model.alert import Severity
from announce.model.reason import Reason
from announce.model.target import address_of
from announce.store.subscriptions import Subscription
from announce_stack.demo.sending import End, Fields, How, Sending, Status

Target = Mapping[str, str | int]

PHONE: Final[Target] = {"channel": "fcm", "token": "phone-of-ada"}
CHAT: Final[Target] = {"channel": "telegram", "chat_id": 4001}
GONE_PHONE: Final[Target] = {"channel": "fcm", "token": "phone-that-is-gone"}
SHAKY_PHONE: Final[Target] = {"channel": "fcm", "token": "phone-behind-shaky-fcm"}

FAILURES: Final[Sequence[Mapping[str, str | int]]] = (
    {"clear": 1, "target": GONE_PHONE["token"], "error_code": "UNREGISTERED"},
    {"target": SHAKY_PHONE["token"], "status": 503, "times": 2},
)
"""What the fake FCM is told through /control before anything is sent."""

DATABASE: Final = "database"
NETWORK: Final = "network"

DUTY_PHONE: Final = Subscription("fcm", "phone-on-duty")
DATABASE_CHAT: Final = Subscription("telegram", "4002", tags=(DATABASE,))
NETWORK_CHAT: Final = Subscription("telegram", "@network_team", tags=(NETWORK,))
MANAGERS: Final = Subscription("fcm", "/topics/managers", min_severity=Severity.CRITICAL)

SUBSCRIPTIONS: Final = (DUTY_PHONE, DATABASE_CHAT, NETWORK_CHAT, MANAGERS)

BROKEN: Final[Fields] = {"title": "", "severity": "urgent", "colour": "red"}
"""An alert in which three fields break a rule."""


def scenario(run: str, now: datetime) -> list[Sending]:
    """All that is sent.

    Args:
        run: begins every alert's id, so that another run in the same folder sends other alerts.
        now: what has expired expired before this.
    """
    first = _alert(f"{run}:disk-full", "Disk almost full", PHONE, CHAT)
    return [
        Sending(
            what="to a phone and a chat", how=How.HTTP, alerts=[first], answer="202 accepted", ends=_sent(PHONE, CHAT)
        ),
        *_over_http(run, now),
        Sending(
            what="the first one again",
            how=How.HTTP,
            alerts=[first],
            answer="202 duplicate",
            ends=_sent(PHONE, CHAT),
            repeats=True,
        ),
        *_refused(run),
        *_failing(run),
        *_over_nats(run),
        Sending(
            what="the first one again",
            how=How.NATS,
            alerts=[first],
            answer="ack, duplicate",
            ends=_sent(PHONE, CHAT),
            repeats=True,
        ),
    ]


def _over_http(run: str, now: datetime) -> list[Sending]:
    fan_out = _alert(f"{run}:slow-queries", "Queries are slow", severity="warning", tags=[DATABASE])
    batch = [
        _alert(f"{run}:backup-done", "Backup done", PHONE),
        {**BROKEN, "alert_id": f"{run}:in-batch"},
        _alert(f"{run}:backup-checked", "Backup checked", CHAT),
    ]
    past = (now.astimezone(UTC) - timedelta(minutes=1)).isoformat()
    expired = _alert(f"{run}:too-late", "Lunch is ready", PHONE, expires_at=past)
    return [
        Sending(
            what="to the subscribers",
            how=How.HTTP,
            alerts=[fan_out],
            answer="202 accepted",
            ends=_sent_to(DUTY_PHONE, DATABASE_CHAT),
        ),
        Sending(
            what="a batch of three",
            how=How.HTTP,
            alerts=batch,
            answer="207: 2 accepted, 1 invalid-alert",
            ends=_sent(PHONE, CHAT),
        ),
        Sending(
            what="one that has expired",
            how=How.HTTP,
            alerts=[expired],
            answer="202 accepted",
            ends=[End("fcm", address_of(PHONE), Status.EXPIRED, 0, Reason.EXPIRED)],
        ),
    ]


def _refused(run: str) -> list[Sending]:
    forged = _alert(f"{run}:forged", "Not from you", PHONE)
    invalid = {**BROKEN, "alert_id": f"{run}:invalid"}
    return [
        Sending(what="a bad signature", how=How.HTTP, alerts=[forged], answer="401 bad-signature", forged=True),
        Sending(
            what="invalid fields",
            how=How.HTTP,
            alerts=[invalid],
            answer="422 invalid-alert: severity, title, colour",
        ),
    ]


def _failing(run: str) -> list[Sending]:
    gone = _alert(f"{run}:gone", "Nobody gets this", GONE_PHONE)
    shaky = _alert(f"{run}:shaky", "The third try gets through", SHAKY_PHONE)
    return [
        Sending(
            what="to a phone that is gone",
            how=How.HTTP,
            alerts=[gone],
            answer="202 accepted",
            ends=[End("fcm", address_of(GONE_PHONE), Status.DEAD, 1, Reason.TARGET_GONE)],
        ),
        Sending(
            what="while FCM fails twice",
            how=How.HTTP,
            alerts=[shaky],
            answer="202 accepted",
            ends=[End("fcm", address_of(SHAKY_PHONE), Status.SENT, 3)],
        ),
    ]


def _over_nats(run: str) -> list[Sending]:
    direct = _alert(f"{run}:over-nats", "Sent over NATS", PHONE, CHAT)
    fan_out = _alert(f"{run}:link-down", "The link is down", severity="critical", tags=[NETWORK])
    invalid = {**BROKEN, "alert_id": f"{run}:invalid-over-nats"}
    return [
        Sending(what="to a phone and a chat", how=How.NATS, alerts=[direct], answer="ack", ends=_sent(PHONE, CHAT)),
        Sending(
            what="critical, to the subscribers",
            how=How.NATS,
            alerts=[fan_out],
            answer="ack",
            ends=_sent_to(DUTY_PHONE, NETWORK_CHAT, MANAGERS),
        ),
        Sending(
            what="invalid fields",
            how=How.NATS,
            alerts=[invalid],
            answer="ack",
            ends=[End("ingest", None, Status.DEAD, 0, Reason.INVALID_ALERT)],
        ),
    ]


def _alert(alert_id: str, title: str, *targets: Target, **fields: object) -> Fields:
    named = {"targets": list(targets)} if targets else {}
    return {"alert_id": alert_id, "title": title, **fields, **named}


def _sent(*targets: Target) -> list[End]:
    return [End(str(target["channel"]), address_of(target), Status.SENT, 1) for target in targets]


def _sent_to(*subscriptions: Subscription) -> list[End]:
    return [End(each.channel, each.address, Status.SENT, 1) for each in subscriptions]
