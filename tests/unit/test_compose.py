import ast
import importlib
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import pytest
from cryptography.fernet import Fernet
from ruamel.yaml import YAML

from announce.runtime.settings import ServiceSettings, Settings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yml"
# What is read from the environment of `docker compose` itself; comments explain the forms and count for nothing.
INTERPOLATED = re.findall(r"\$\{(BA_\w+)(:[-?])?", re.sub(r"(?m)^\s*#.*$", "", COMPOSE.read_text("utf-8")))
REQUIRED = {name for name, default in INTERPOLATED if default == ":?"}
SERVICES = sorted(path.parent.name for path in ROOT.glob("services/*/__main__.py"))
MODULES = ["announce", "announce_fakes", "announce_stack", *SERVICES]


def load_compose() -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe").load(COMPOSE)
    return content


CONTAINERS: dict[str, dict[str, Any]] = load_compose()["services"]
OURS = [name for name, container in CONTAINERS.items() if "build" in container]
VENDORS = [name for name in CONTAINERS if name not in OURS]


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(*MODULES)


def settings_read_by(program: str) -> set[str]:
    """Name the variables of every settings class that the program, or a module that it imports, passes to `load`."""
    main = f"{program}.__main__"
    start = main if main in imports().modules else program
    classes: set[type[Settings]] = set()
    for name in {start, *imports().find_upstream_modules(start)}:
        module = importlib.import_module(name)
        for call in ast.walk(ast.parse(Path(module.__file__ or "").read_text("utf-8"))):
            if isinstance(call, ast.Call) and len(call.args) == 1 and isinstance(call.args[0], ast.Name):
                value = getattr(module, call.args[0].id, None)
                if isinstance(value, type) and issubclass(value, Settings):
                    classes.add(value)
    return {f"{each.model_config['env_prefix']}{field}".upper() for each in classes for field in each.model_fields}


def env_file(text: str) -> dict[str, str]:
    lines = [line.partition("=") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in lines}


def test_settings_are_found_where_they_are_read() -> None:
    assert {"BA_INGESTD_LISTEN", "BA_PG_DSN", "BA_SECRET_KEYS", "BA_LOG_LEVEL"} <= settings_read_by("ingestd")
    assert "BA_SECRET_KEYS" not in settings_read_by("deliverd_fcm")


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_its_container(service: str) -> None:
    container = CONTAINERS[service.replace("_", "-")]
    assert container["command"] == [service]
    assert container["environment"][f"BA_{service.upper()}_LISTEN"] == "0.0.0.0:8080"
    assert container["restart"] == "unless-stopped"
    assert container["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", OURS)
def test_every_program_gets_the_settings_that_it_reads_and_no_others(name: str) -> None:
    wired = {variable for variable in CONTAINERS[name].get("environment", {}) if variable.startswith("BA_")}
    assert wired == settings_read_by(CONTAINERS[name]["command"][0])


@pytest.mark.parametrize("name", OURS)
def test_a_setting_keeps_its_name_on_its_way_in(name: str) -> None:
    for variable, value in CONTAINERS[name].get("environment", {}).items():
        if str(value).startswith("${"):
            assert str(value).startswith(f"${{{variable}")


@pytest.mark.parametrize("name", OURS)
def test_a_nats_user_comes_with_its_own_password(name: str) -> None:
    url = CONTAINERS[name].get("environment", {}).get("BA_NATS_URL")
    if url is not None:
        user = re.fullmatch(r"nats://(\w+):\$\{BA_NATS_(\w+)_PASSWORD\}@nats:4222", url)
        assert user is not None
        assert user[2] == user[1].upper()
        assert f"{{user: {user[1]}, password: $BA_NATS_{user[2]}_PASSWORD" in (
            ROOT / "deploy/nats/services.conf"
        ).read_text("utf-8")


def test_nats_gets_every_variable_of_its_configuration() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "deploy/nats").glob("*.conf")]
    used = {name for text in texts for name in re.findall(r"\$(BA_\w+)", text)}
    assert set(CONTAINERS["nats"]["environment"]) == used


@pytest.mark.parametrize("name", VENDORS)
def test_vendors_images_are_pinned_and_checked(name: str) -> None:
    assert re.search(r":v?\d+\.\d+[\w.-]*$", CONTAINERS[name]["image"])
    assert CONTAINERS[name]["healthcheck"]["test"]


def test_the_base_image_is_pinned() -> None:
    stages = re.findall(r"(?m)^FROM (\S+) AS (\S+)$", (ROOT / "Dockerfile").read_text("utf-8"))
    names = {stage for _, stage in stages}
    outside = {image for image, _ in stages if image not in names}
    assert outside
    assert all(re.fullmatch(r"python:\d+\.\d+-slim-\w+", image) for image in outside)
    assert {CONTAINERS[name]["build"]["target"] for name in OURS} <= names


def test_what_the_image_copies_is_there() -> None:
    copied = re.findall(r"(?m)^COPY (?!--from)(\S+) ", (ROOT / "Dockerfile").read_text("utf-8"))
    kept = re.findall(r"(?m)^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"))
    for source in copied:
        assert (ROOT / source).exists()
        assert any(source == path or source.startswith(f"{path}/") for path in kept)


def test_only_the_two_apis_are_published_and_only_on_loopback() -> None:
    published = {name: container["ports"] for name, container in CONTAINERS.items() if "ports" in container}
    assert {name for name in published if CONTAINERS[name].get("profiles") != ["demo"]} == {"ingestd", "admind"}
    for port in [port for ports in published.values() for port in ports]:
        assert re.match(r"(\$\{BA_\w+:-)?127\.0\.0\.1:", port)


@pytest.mark.parametrize("name", OURS)
def test_a_container_outlives_the_grace_of_its_service(name: str) -> None:
    grace_s = ServiceSettings.model_fields["shutdown_grace_s"].default
    assert int(CONTAINERS[name]["stop_grace_period"].removesuffix("s")) > grace_s


def test_the_demo_sets_everything_that_must_be_set_and_nothing_unknown() -> None:
    values = env_file((ROOT / "deploy/demo.env").read_text("utf-8"))
    assert set(values) >= REQUIRED
    assert set(values) <= {name for name, _ in INTERPOLATED}
    assert values["BA_FCM_CREDENTIALS_DIR"] in load_compose()["volumes"]


def test_fresh_secrets_are_complete_and_fit() -> None:
    made = subprocess.run([ROOT / "deploy/fresh_env.sh"], check=True, capture_output=True, text=True)
    values = env_file(made.stdout)
    assert set(values) == REQUIRED
    assert {name for name, value in values.items() if not value} == {"BA_FCM_CREDENTIALS_DIR", "BA_TELEGRAM_BOT_TOKEN"}
    Fernet(values["BA_SECRET_KEYS"])
    passwords = [value for name, value in values.items() if name.endswith("_PASSWORD")]
    assert all(re.fullmatch(r"[a-z][0-9a-f]{32}", password) for password in passwords)
    assert len(set(passwords)) == len(passwords)
