from pathlib import Path

import pytest

from announce_stack import environment
from announce_stack.state import Plan, State

FOLDER = Path("/stack")
NAMES = (
    *("nats", "clickhouse", "fakes", "postgres"),
    *("ingestd", "deliverd_fcm", "deliverd_fcm:2", "deliverd_telegram", "admind"),
)
PORT_NAMES = (*NAMES, "nats_monitor", "fake_fcm", "fake_telegram", "fake_webhook")


def stack(*names: str, **overrides: str) -> State:
    ports = {name: 20_000 + number for number, name in enumerate(PORT_NAMES)}
    return State(ports=ports, plan=Plan(names=names or NAMES, overrides=overrides), admin_token="token")


def test_a_whole_stack_tells_everything_that_the_design_names() -> None:
    values = environment.exported(FOLDER, stack())
    assert values.keys() >= {
        *("BA_NATS_URL", "BA_NATS_PRODUCER_URL", "BA_PG_DSN", "BA_CLICKHOUSE_DSN", "BA_INGESTD_URL", "BA_ADMIND_URL"),
        *("BA_FAKE_FCM_URL", "BA_FAKE_TELEGRAM_URL", "BA_FAKE_WEBHOOK_URL"),
        *(
            "BA_DEMO_COMPANY",
            "BA_DEMO_KEY_ID",
            "BA_DEMO_SECRET",
            "BA_ADMIN_USER",
            "BA_ADMIN_PASSWORD",
            "BA_ADMIN_TOKEN",
        ),
        *("BA_INGESTD_METRICS_URL", "BA_DELIVERD_FCM_METRICS_URL", "BA_DELIVERD_TELEGRAM_METRICS_URL"),
        "BA_ADMIND_METRICS_URL",
    }
    assert all(value and "\n" not in value for value in values.values())


def test_addresses_are_those_of_the_first_replica() -> None:
    remembered = stack()
    url = environment.exported(FOLDER, remembered)["BA_DELIVERD_FCM_METRICS_URL"]
    assert url == f"http://127.0.0.1:{remembered.ports['deliverd_fcm']}/metrics"


def test_what_is_not_part_of_the_stack_has_no_address() -> None:
    values = environment.exported(FOLDER, stack("postgres", "nats", "ingestd"))
    assert "BA_INGESTD_URL" in values
    assert not values.keys() & {"BA_ADMIND_URL", "BA_FAKE_FCM_URL", "BA_ADMIND_METRICS_URL"}


def test_each_service_is_its_own_nats_user() -> None:
    remembered = stack()
    urls = [environment.for_service(FOLDER, remembered, name)["BA_NATS_URL"] for name in ("ingestd", "deliverd_fcm")]
    assert urls[0].startswith("nats://ingestd:")
    assert urls[1].startswith("nats://deliverd_fcm:")


def test_a_service_gets_no_credential_that_it_has_no_use_for() -> None:
    remembered = stack()
    ingestd, telegram, admind = (
        environment.for_service(FOLDER, remembered, name) for name in ("ingestd", "deliverd_telegram", "admind")
    )
    assert "BA_TELEGRAM_BOT_TOKEN" in telegram
    assert "BA_ADMIND_JWT_SECRET" in admind
    assert not ingestd.keys() & {"BA_TELEGRAM_BOT_TOKEN", "BA_FCM_CREDENTIALS_FILE", "BA_ADMIND_JWT_SECRET"}


def test_channels_speak_to_the_fakes_only_where_these_belong_to_the_stack() -> None:
    assert "BA_FCM_BASE_URL" in environment.for_service(FOLDER, stack(), "deliverd_fcm")
    without = stack("postgres", "nats", "deliverd_fcm")
    assert "BA_FCM_BASE_URL" not in environment.for_service(FOLDER, without, "deliverd_fcm")


@pytest.mark.parametrize("name", ["BA_DELIVERD_MAX_ATTEMPTS", "BA_FCM_BASE_URL", "BA_PG_DSN"])
def test_the_callers_settings_go_over_the_stacks_own(name: str) -> None:
    assert environment.for_service(FOLDER, stack(**{name: "x"}), "deliverd_fcm")[name] == "x"


def test_the_stores_are_always_prepared_where_they_are() -> None:
    remembered = stack(BA_PG_DSN="elsewhere", BA_NATS_URL="elsewhere", BA_NATS_REPLICAS="3")
    values = environment.for_jobs(FOLDER, remembered)
    assert values["BA_NATS_REPLICAS"] == "3"
    assert values["BA_NATS_URL"].startswith("nats://admin:")
    assert values["BA_PG_DSN"].startswith("postgresql://announce:")


def test_a_clickhouse_elsewhere_is_the_stacks_clickhouse() -> None:
    remembered = stack("postgres", "nats", "ingestd", BA_CLICKHOUSE_DSN="http://elsewhere:8123/ba_archive")
    assert environment.exported(FOLDER, remembered)["BA_CLICKHOUSE_DSN"] == "http://elsewhere:8123/ba_archive"
    assert environment.for_service(FOLDER, remembered, "ingestd")["BA_CLICKHOUSE_DSN"].startswith("http://elsewhere")
