import subprocess
import sys

import pytest

from announce.delivery.settings import DeliverySettings
from announce.runtime.settings import ServiceSettings, load


def test_a_wrong_value_ends_the_start_with_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_DELIVERD_MAX_ATTEMPTS", "many")
    monkeypatch.setenv("BA_DELIVERD_RETRY_BASE_MS", "-1")
    with pytest.raises(SystemExit) as ended:
        load(DeliverySettings)
    message = str(ended.value)
    assert "BA_DELIVERD_MAX_ATTEMPTS: " in message
    assert "BA_DELIVERD_RETRY_BASE_MS: " in message
    assert "\n" not in message


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_LOG_LEVEL", "")
    assert load(ServiceSettings).log_level == "info"


def test_a_service_ends_with_that_line_and_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BA_LOG_LEVEL", "loud")
    ended = subprocess.run([sys.executable, "-m", "ingestd"], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("settings: BA_LOG_LEVEL: ")
    assert ended.stderr.count("\n") == 1
