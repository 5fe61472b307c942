from collections.abc import Callable

import pytest

from announce_stack.failure import StackError
from announce_stack.report import silent
from announce_stack.request import Request, overrides


def test_with_fakes_everything_runs() -> None:
    assert set(Request(fakes=True).names({}, silent)) == {
        *("nats", "clickhouse", "fakes", "postgres"),
        *("ingestd", "deliverd_fcm", "deliverd_telegram", "admind"),
    }


def test_a_channel_without_credentials_is_left_out_and_it_says_why() -> None:
    said: list[str] = []
    names = Request().names({"BA_TELEGRAM_BOT_TOKEN": "123456:AA"}, said.append)
    assert "deliverd_telegram" in names
    assert not {"deliverd_fcm", "fakes"} & set(names)
    assert said == ["deliverd_fcm is left out: it needs BA_FCM_CREDENTIALS_FILE, or --fakes"]


def test_replicas_have_names_of_their_own_and_the_first_has_the_services() -> None:
    names = Request(fakes=True, replicas={"deliverd_fcm": 3}).names({}, silent)
    assert [name for name in names if name.startswith("deliverd_fcm")] == [
        "deliverd_fcm",
        "deliverd_fcm:2",
        "deliverd_fcm:3",
    ]


def test_only_servers_are_only_those() -> None:
    assert Request(only=("postgres", "nats")).names({}, silent) == ("nats", "postgres")


def test_only_a_service_brings_the_servers_along() -> None:
    assert set(Request(only=("ingestd",)).names({}, silent)) == {"nats", "clickhouse", "postgres", "ingestd"}


def test_a_clickhouse_elsewhere_needs_none_here() -> None:
    assert "clickhouse" not in Request().names({"BA_CLICKHOUSE_DSN": "http://elsewhere/ba_archive"}, silent)


@pytest.mark.parametrize("wrong", [lambda: Request(only=("ingest",)), lambda: Request(replicas={"nats": 2})])
def test_an_unknown_name_is_refused_with_the_known_ones(wrong: Callable[[], Request]) -> None:
    with pytest.raises(StackError, match="ingestd, deliverd_fcm"):
        wrong()


def test_settings_come_from_the_callers_environment() -> None:
    caller = {"BA_DELIVERD_MAX_ATTEMPTS": "3", "PATH": "/bin", "BA_PG_BIN": "/x", "BA_INGESTD_LISTEN": "0.0.0.0:1"}
    assert overrides(caller, ()) == {"BA_DELIVERD_MAX_ATTEMPTS": "3"}


def test_what_env_printed_is_no_wish_of_the_callers() -> None:
    printed = {"BA_NATS_URL": "nats://admin:x@127.0.0.1:20001"}
    known = set(printed.items())
    assert overrides(printed | {"BA_LOG_LEVEL": "debug"}, known) == {"BA_LOG_LEVEL": "debug"}
    assert overrides({"BA_NATS_URL": "nats://other:4222"}, known) == {"BA_NATS_URL": "nats://other:4222"}
