import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from announce_stack import layout
from announce_stack.readiness import LOOPBACK, answers
from announce_stack.server import Server

NAME = "nats"
MONITOR = "nats_monitor"
# Above the sum of what announce.bus.setup reserves for the streams.
MAX_FILE_STORE = "16GB"
PASSWORD = re.compile(r"\$(BA_NATS_\w+_PASSWORD)\b")


def server(folder: Path, port: int, monitor_port: int, passwords: Mapping[str, str]) -> Server:
    """nats-server with JetStream in `folder`/nats, users and permissions as in deploy/nats.

    Args:
        folder: an existing folder.
        port: where clients connect, on loopback only.
        monitor_port: where /healthz is served.
        passwords: by the variable that the configuration reads each from; see `fresh_passwords`.
    """
    environment = {
        "BA_NATS_SERVER_NAME": f"broad-announce-{port}",
        "BA_NATS_LISTEN": f"{LOOPBACK}:{port}",
        "BA_NATS_MONITOR_LISTEN": f"{LOOPBACK}:{monitor_port}",
        "BA_NATS_STORE_DIR": str(folder / NAME),
        "BA_NATS_MAX_FILE_STORE": MAX_FILE_STORE,
    }
    return Server(
        name=NAME,
        argv=(str(layout.venv_program("nats-server")), "-c", str(layout.NATS_CONFIG)),
        folder=folder,
        ready=answers(monitor_port, "/healthz"),
        ports=(port, monitor_port),
        environment=environment | dict(passwords),
    )


def fresh_passwords(known: Mapping[str, str] | None = None) -> dict[str, str]:
    """A password for each user of the configuration, by its variable; those already known are kept."""
    texts = [path.read_text() for path in sorted(layout.NATS_CONFIG.parent.glob("*.conf"))]
    variables = sorted({name for text in texts for name in PASSWORD.findall(text)})
    # nats-server reads a variable's value as configuration, where a leading digit would start a number.
    return {name: f"n{secrets.token_hex(16)}" for name in variables} | dict(known or {})


def url(port: int, user: str, passwords: Mapping[str, str]) -> str:
    """What a client of that user, such as `admin` or `producer-demo`, connects to."""
    variable = f"BA_NATS_{user.upper().replace('-', '_')}_PASSWORD"
    return f"nats://{user}:{passwords[variable]}@{LOOPBACK}:{port}"
