import pytest
from pydantic import SecretStr, ValidationError

from announce.archive.settings import ArchiveSettings, Endpoint, endpoint


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("http://127.0.0.1:8123/default", ("http", "127.0.0.1", 8123, "default", "", "default")),
        ("http://archive", ("http", "archive", 8123, "default", "", "default")),
        ("https://u:p%2F%40@[::1]/ba_archive", ("https", "::1", 8443, "u", "p/@", "ba_archive")),
    ],
)
def test_a_dsn_is_taken_apart(dsn: str, expected: tuple[str, str, int, str, str, str]) -> None:
    scheme, host, port, user, password, database = expected
    assert endpoint(SecretStr(dsn)) == Endpoint(scheme, host, port, user, SecretStr(password), database)


@pytest.mark.parametrize(
    "dsn",
    [
        "127.0.0.1:8123",
        "clickhouse://secret@host/db",
        "http://:8123/secret",
        "http://u:secret@host:port/db",
        "http://u:secret@host:99999/db",
        "http://[secret/db",
        "http://u:secret@host/db/more",
        "http://u:secret@host/db?compress=1",
    ],
)
def test_a_wrong_dsn_is_refused_without_repeating_it(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    monkeypatch.setenv("BA_CLICKHOUSE_DSN", dsn)
    with pytest.raises(ValidationError, match="clickhouse_dsn") as refused:
        ArchiveSettings()
    assert "secret" not in str(refused.value)


def test_by_default_it_is_a_local_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BA_CLICKHOUSE_DSN", raising=False)
    assert endpoint(ArchiveSettings().clickhouse_dsn).port == 8123
