"""What the services are told, and what a stack tells those who use it."""

from collections.abc import Mapping
from pathlib import Path

from announce_stack import clickhouse, fakes, nats, postgres
from announce_stack.readiness import LOOPBACK
from announce_stack.services import SERVICES
from announce_stack.state import State

DEMO_COMPANY = "demo"
DEMO_PRODUCER = "producer-demo"
ADMIN = "admin"


def for_service(folder: Path, state: State, service: str) -> dict[str, str]:
    """The settings of a service: the stack's own, and over them what the caller of `up` had set."""
    shared = _stores(state) | {"BA_NATS_URL": nats.url(state.ports[nats.NAME], service, state.secrets.nats)}
    return shared | _own(folder, state).get(service, {}) | state.plan.overrides


def for_jobs(folder: Path, state: State) -> dict[str, str]:
    """The settings of the programs that prepare the stores: which stores these are is the stack's to say."""
    return state.plan.overrides | exported(folder, state)


def exported(folder: Path, state: State) -> dict[str, str]:
    """What `env` prints: how to reach each part that belongs to the stack, and who may."""
    names, ports, secrets = state.plan.names, state.ports, state.secrets
    values = {"BA_STACK_DIR": str(folder)} | _stores(state)
    if nats.NAME in names:
        values["BA_NATS_URL"] = nats.url(ports[nats.NAME], "admin", secrets.nats)
        values["BA_NATS_PRODUCER_URL"] = nats.url(ports[nats.NAME], DEMO_PRODUCER, secrets.nats)
    for service in SERVICES:
        if service in names:
            values[f"BA_{service.upper()}_METRICS_URL"] = f"{_http(ports[service])}/metrics"
    for service in ("ingestd", "admind"):
        if service in names:
            values[f"BA_{service.upper()}_URL"] = _http(ports[service])
    if fakes.NAME in names:
        for fake in (fakes.FCM, fakes.TELEGRAM, fakes.WEBHOOK):
            values[f"BA_{fake.upper()}_URL"] = _http(ports[fake])
    return values | {
        "BA_DEMO_COMPANY": DEMO_COMPANY,
        "BA_DEMO_KEY_ID": secrets.demo_key_id,
        "BA_DEMO_SECRET": secrets.demo_secret,
        "BA_ADMIN_USER": ADMIN,
        "BA_ADMIN_PASSWORD": secrets.admin_password,
        "BA_ADMIN_TOKEN": state.admin_token,
    }


def _stores(state: State) -> dict[str, str]:
    values = {"BA_SECRET_KEYS": state.secrets.fernet}
    if postgres.NAME in state.ports:
        values["BA_PG_DSN"] = postgres.dsn(state.ports[postgres.NAME], state.secrets.postgres)
    if elsewhere := state.plan.overrides.get("BA_CLICKHOUSE_DSN"):
        values["BA_CLICKHOUSE_DSN"] = elsewhere
    elif clickhouse.NAME in state.ports:
        values["BA_CLICKHOUSE_DSN"] = clickhouse.dsn(state.ports[clickhouse.NAME], state.secrets.clickhouse)
    return values


def _own(folder: Path, state: State) -> Mapping[str, dict[str, str]]:
    own = {"admind": {"BA_ADMIND_JWT_SECRET": state.secrets.jwt}}
    if fakes.NAME in state.plan.names:
        own["deliverd_fcm"] = {
            "BA_FCM_CREDENTIALS_FILE": str(fakes.service_account(folder)),
            "BA_FCM_BASE_URL": _http(state.ports[fakes.FCM]),
        }
        own["deliverd_telegram"] = {
            "BA_TELEGRAM_BOT_TOKEN": state.secrets.telegram_token,
            "BA_TELEGRAM_BASE_URL": _http(state.ports[fakes.TELEGRAM]),
        }
    return own


def _http(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"
