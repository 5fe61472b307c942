from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from announce_stack import layout
from announce_stack.failure import StackError
from announce_stack.readiness import LOOPBACK, answers
from announce_stack.server import Server


@dataclass(frozen=True, slots=True)
class Service:
    """A service of the repository.

    Attributes:
        name: of the service and of its module.
        credential: the variable with a provider's credential, which it can't work without.
    """

    name: str
    credential: str | None = None

    @property
    def listen_variable(self) -> str:
        """The variable that says where it listens."""
        return f"BA_{self.name.upper()}_LISTEN"


SERVICES = {
    service.name: service
    for service in (
        Service("ingestd"),
        Service("deliverd_fcm", credential="BA_FCM_CREDENTIALS_FILE"),
        Service("deliverd_telegram", credential="BA_TELEGRAM_BOT_TOKEN"),
        Service("admind"),
    )
}


def replica(service: str, number: int) -> str:
    """The name of a service's replica, counted from 1: the first has the service's own name."""
    return service if number == 1 else f"{service}:{number}"


def server(folder: Path, name: str, port: int, environment: Mapping[str, str]) -> Server:
    """One replica of a service.

    Args:
        folder: an existing folder.
        name: as `replica` makes it.
        port: where it listens, on loopback only.
        environment: its settings, but for where it listens.

    Raises:
        StackError: there is no such service.
    """
    service = SERVICES.get(name.partition(":")[0])
    if service is None:
        raise StackError(f"there is no service {name}; there are {', '.join(SERVICES)}")
    return Server(
        name=name,
        argv=layout.module(service.name),
        folder=folder,
        ready=answers(port, "/readyz"),
        ports=(port,),
        environment={**environment, service.listen_variable: f"{LOOPBACK}:{port}"},
    )
