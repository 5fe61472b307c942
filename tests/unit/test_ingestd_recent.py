from announce.store.alerts import AlertKey
from ingestd.recent import RecentAlerts


def test_an_alert_is_remembered_for_as_long_as_the_window_lasts() -> None:
    now = [0.0]
    recent = RecentAlerts(10, clock=lambda: now[0])
    recent.remember(AlertKey("acme", "a"), b"hash")
    now[0] = 9.9
    assert recent.content_hash(AlertKey("acme", "a")) == b"hash"
    assert recent.content_hash(AlertKey("other", "a")) is None
    now[0] = 10
    assert recent.content_hash(AlertKey("acme", "a")) is None


def test_the_oldest_gives_way() -> None:
    recent = RecentAlerts(10, capacity=2)
    a, b, c = (AlertKey("acme", name) for name in "abc")
    recent.remember(a, b"1")
    recent.remember(b, b"2")
    recent.remember(a, b"3")
    recent.remember(c, b"4")
    assert [recent.content_hash(key) for key in (a, b, c)] == [b"3", None, b"4"]
