import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from announce.outbound.settings import OutboundSettings
from announce.runtime.settings import load
from deliverd_fcm.settings import FcmSettings
from deliverd_telegram.settings import TelegramSettings

TOKEN = "12345:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"


def pem(key: PrivateKeyTypes, encryption: KeySerializationEncryption | None = None) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()).decode()


RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ACCOUNT = {
    "type": "service_account",
    "project_id": "demo-project",
    "private_key_id": "0f" * 20,
    "private_key": pem(RSA_KEY),
    "client_email": "announce@demo-project.iam.gserviceaccount.com",
    "client_id": "100000000000000000001",
    "token_uri": "https://oauth2.googleapis.com/token",
}


def test_a_key_file_is_read_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    path.write_bytes(msgspec.json.encode(ACCOUNT))
    monkeypatch.setenv("BA_FCM_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("BA_FCM_BASE_URL", "http://127.0.0.1:9000/fcm/")
    settings = load(FcmSettings)
    account = settings.fcm_credentials_file
    assert (account.project_id, account.client_email) == ("demo-project", ACCOUNT["client_email"])
    assert (account.token_uri, account.key_id) == (ACCOUNT["token_uri"], "0f" * 20)
    assert pem(account.key) == ACCOUNT["private_key"]
    assert settings.fcm_base_url == "http://127.0.0.1:9000/fcm"
    assert (settings.fcm_timeout_s, settings.deliverd_fcm_listen) == (10, "127.0.0.1:8081")
    assert "PRIVATE KEY" not in repr(settings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the file can't be read: No such file or directory"),
        (b"", "the file is not a service account's key file: Input data was truncated"),
        (b"-----BEGIN", "the file is not a service account's key file: JSON is malformed"),
        (b"[]", "the file is not a service account's key file: Expected `object`, got `array`"),
        ({"type": "authorized_user"}, "its type must be 'service_account'"),
        ({"client_email": None}, "Expected `str`, got `null` - at `$.client_email`"),
        ({"project_id": "../x"}, "the file's project_id must be a project's id, such as my-project-1"),
        ({"private_key": "secret-words"}, "the file's private_key can't be read"),
        ({"private_key": pem(RSA_KEY, BestAvailableEncryption(b"p"))}, "a PEM key without a password"),
        ({"private_key": pem(ec.generate_private_key(ec.SECP256R1()))}, "the file's private_key must be an RSA key"),
        ({"token_uri": "ftp://x/token"}, "the file's token_uri must be an http or https URL with a host"),
        ({"token_uri": "oauth2.googleapis.com"}, "the file's token_uri must be an http or https URL with a host"),
    ],
)
def test_what_is_no_key_file_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | dict[str, object] | None, said: str
) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_bytes(msgspec.json.encode(ACCOUNT | content) if isinstance(content, dict) else content)
    monkeypatch.setenv("BA_FCM_CREDENTIALS_FILE", str(path))
    with pytest.raises(SystemExit) as ended:
        load(FcmSettings)
    line = str(ended.value)
    assert line.startswith("settings: BA_FCM_CREDENTIALS_FILE: ")
    assert said in line
    assert "\n" not in line
    assert "secret-words" not in line


@pytest.mark.parametrize(
    "token", [None, "", "secret", "12345:", "x:secret", "12345:sec/ret", f"{TOKEN}\n", f"bot{TOKEN}"]
)
def test_what_is_no_bot_token_stops_the_start(monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    monkeypatch.delenv("BA_TELEGRAM_BOT_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("BA_TELEGRAM_BOT_TOKEN", token)
    with pytest.raises(SystemExit) as ended:
        load(TelegramSettings)
    line = str(ended.value)
    assert line.startswith("settings: BA_TELEGRAM_BOT_TOKEN: ")
    assert "\n" not in line
    assert not token or token not in line


def test_a_bot_token_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_TELEGRAM_BOT_TOKEN", TOKEN)
    settings = load(TelegramSettings)
    assert settings.telegram_bot_token.get_secret_value() == TOKEN
    assert TOKEN not in repr(settings)
    assert settings.telegram_timeout_s == 15


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("BA_TELEGRAM_BASE_URL", "api.telegram.org", "must be an http or https URL with a host"),
        ("BA_TELEGRAM_BASE_URL", "https://", "must be an http or https URL with a host"),
        ("BA_TELEGRAM_BASE_URL", "https://x:99999", "must be a URL"),
        ("BA_TELEGRAM_BASE_URL", "https://user:secret@x", "must not hold a user or a password"),
        ("BA_TELEGRAM_BASE_URL", "https://x/?a=1", "must not hold a query or a fragment"),
        ("BA_DELIVERD_TELEGRAM_LISTEN", "8082", "must be host:port"),
        ("BA_TELEGRAM_TIMEOUT_S", "0", "greater than 0"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, rule: str) -> None:
    monkeypatch.setenv("BA_TELEGRAM_BOT_TOKEN", TOKEN)
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        load(TelegramSettings)
    assert f"{name}: " in str(ended.value)
    assert rule in str(ended.value)
    assert "secret" not in str(ended.value)


def test_the_client_s_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_OUTBOUND_MAX_ANSWER_BYTES", "2048")
    assert load(OutboundSettings).max_answer_bytes == 2048
    monkeypatch.setenv("BA_OUTBOUND_MAX_ANSWER_BYTES", "1")
    with pytest.raises(SystemExit, match=r"^settings: BA_OUTBOUND_MAX_ANSWER_BYTES: "):
        load(OutboundSettings)


@pytest.mark.parametrize(
    ("service", "variable"),
    [("deliverd_fcm", "BA_FCM_CREDENTIALS_FILE"), ("deliverd_telegram", "BA_TELEGRAM_BOT_TOKEN")],
)
def test_a_service_without_its_credential_ends_with_one_line(service: str, variable: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BA_")}
    ended = subprocess.run(
        [sys.executable, "-m", service], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == f"settings: {variable}: Field required\n"
