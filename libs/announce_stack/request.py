"""From what the caller of `up` asks for, and has in the environment, to what a stack consists of."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from announce_stack import clickhouse, fakes, nats, postgres
from announce_stack.failure import StackError
from announce_stack.report import Report
from announce_stack.services import SERVICES, replica

SERVERS = (nats.NAME, clickhouse.NAME, fakes.NAME, postgres.NAME)
# These steer the stack itself, and are no settings of a service.
FOR_THE_STACK = frozenset({"BA_PG_BIN", "BA_DEBIAN_MIRROR", "BA_STACK_DIR"})


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `up`.

    Attributes:
        fakes: whether the fake providers belong to the stack.
        replicas: how many of a service, where not one.
        only: the services or servers that are wanted; empty for all.
    """

    fakes: bool = False
    replicas: Mapping[str, int] = field(default_factory=dict)
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.replicas:
            if name not in SERVICES:
                raise StackError(f"--replicas: there is no service {name}; there are {', '.join(SERVICES)}")
        for name in self.only:
            if name not in (*SERVICES, *SERVERS):
                raise StackError(f"--only: there is no {name}; there are {', '.join((*SERVICES, *SERVERS))}")

    def names(self, caller: Mapping[str, str], report: Report) -> tuple[str, ...]:
        """The servers and replicas to run, in the order of their start; reports what is left out, and why.

        Services need the servers, so those come along. Where only servers are wanted, only those are started.
        """
        return (*self._servers(caller), *self._replicas(caller, report))

    def _servers(self, caller: Mapping[str, str]) -> Iterator[str]:
        for name in SERVERS:
            if name in self.only or self._runs_by_default(name, caller):
                yield name

    def _runs_by_default(self, name: str, caller: Mapping[str, str]) -> bool:
        if self.only and not SERVICES.keys() & self.only:
            return False
        if name == fakes.NAME:
            return self.fakes
        return not (name == clickhouse.NAME and caller.get("BA_CLICKHOUSE_DSN"))

    def _replicas(self, caller: Mapping[str, str], report: Report) -> Iterator[str]:
        for service in SERVICES.values():
            if self.only and service.name not in self.only:
                continue
            if service.credential and not self.fakes and not caller.get(service.credential):
                report(f"{service.name} is left out: it needs {service.credential}, or --fakes")
                continue
            for number in range(1, self.replicas.get(service.name, 1) + 1):
                yield replica(service.name, number)


def overrides(caller: Mapping[str, str], known: Collection[tuple[str, str]]) -> dict[str, str]:
    """The settings that services take from the caller's environment.

    Where a service listens is the stack's to say. What is `known`, as a pair that `env` prints, is no wish of the
    caller's: a shell that has taken over the output of `env` carries it along.
    """
    listen = {service.listen_variable for service in SERVICES.values()}
    return {
        name: value
        for name, value in caller.items()
        if name.startswith("BA_") and name not in listen | FOR_THE_STACK and (name, value) not in known
    }
