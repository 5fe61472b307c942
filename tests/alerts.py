"""What hypothesis makes of alerts: valid ones, ones with something wrong, and anything else that could be sent."""

import json
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from announce.model.alert import Alert, Severity

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
NAMES = st.sampled_from([*Alert.model_fields, "token", "channel", "x"])
FCM = st.builds(
    lambda token: {"channel": "fcm", "token": token}, st.from_regex(r"[A-Za-z0-9:_-]{1,40}", fullmatch=True)
)
TELEGRAM = st.fixed_dictionaries(
    {"channel": st.just("telegram"), "chat_id": st.integers(-(2**63), 2**63 - 1)},
    optional={"message_thread_id": st.integers(1, 2**31)},
)
MOMENTS = st.builds(
    datetime.fromtimestamp,
    st.floats(1.6e9, 4e9),
    st.timezones(),
)
ALERTS = st.fixed_dictionaries(
    {"title": TEXT.filter(bool)},
    optional={
        "alert_id": st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True),
        "severity": st.sampled_from(list(Severity)),
        "body": TEXT,
        "data": st.dictionaries(TEXT, TEXT, max_size=4),
        "tags": st.lists(TEXT.filter(bool), max_size=16),
        "targets": st.lists(FCM | TELEGRAM, min_size=1, max_size=5),
        "collapse_key": TEXT.filter(bool),
    },
)
EXPIRIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional={"ttl_s": st.integers(1, 86400)})


def _with_bytes_changed(raw: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(raw)
    for place, byte in changes:
        changed[place % len(raw)] = byte
    return bytes(changed)


VALID = st.builds(lambda content, expiry: json.dumps(content | expiry).encode(), ALERTS, EXPIRIES)
CHANGED = st.builds(lambda content, name, value: json.dumps(content | {name: value}).encode(), ALERTS, NAMES, JSON)
MUTATED = st.builds(_with_bytes_changed, VALID, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1))
BODIES = st.binary() | JSON.map(lambda content: json.dumps(content).encode()) | VALID | CHANGED | MUTATED
"""Whatever a producer could send as one alert."""
