import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from announce_stack import clickhouse, environment, fakes, jobs, nats, ports, postgres, services, state
from announce_stack.failure import StackError
from announce_stack.lock import exclusive
from announce_stack.report import Report, timed
from announce_stack.request import SERVERS, Request, overrides
from announce_stack.server import Server
from announce_stack.state import Plan, State
from announce_stack.supervisor import Entry, Supervisor

# The names under which the ports of a server are remembered, where it has not just one.
PORTS = {
    nats.NAME: (nats.NAME, nats.MONITOR),
    fakes.NAME: (fakes.FCM, fakes.TELEGRAM, fakes.WEBHOOK),
}


class Stack:
    """The whole system below one folder: its servers, their data, their logs, and what is remembered of them."""

    def __init__(self, folder: Path, report: Report) -> None:
        self._report = report
        self._supervisor = Supervisor(folder, report)
        self._folder = folder

    def up(self, request: Request) -> None:
        """Starts what doesn't run yet, prepares the stores, and returns when all are ready.

        Raises:
            StackError: a part can't be had, doesn't start or doesn't become ready.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            remembered = state.load(self._folder) or State()
            self._scale_down(request)
            self._plan(remembered, request)
            self._settle_ports(remembered)
            names = remembered.plan.names
            servers = [name for name in names if name in SERVERS]
            self._run(remembered, servers)
            self._set_up(remembered, servers)
            self._run(remembered, [name for name in names if name not in SERVERS])

    def down(self) -> None:
        """Ends the services, giving them time for their work in flight, and then the servers."""
        with self._alone():
            running = self._supervisor.running()
            for part in ([n for n in running if n not in SERVERS], [n for n in running if n in SERVERS]):
                if part:
                    with timed(self._report, f"stopped {', '.join(part)}"):
                        self._supervisor.stop(part)
            if not running:
                self._report(f"nothing runs in {self._folder}")

    def kill(self, names: Iterable[str]) -> None:
        """Ends servers or all replicas of services with SIGKILL.

        Raises:
            StackError: a name is unknown, or nothing of that name runs.
        """
        with self._alone():
            running = self._supervisor.running()
            for name in names:
                chosen = [member for member in self._members(name) if member in running]
                if not chosen:
                    raise StackError(f"{name} does not run")
                self._supervisor.kill(chosen)

    def start(self, names: Iterable[str]) -> None:
        """Starts parts of the stack that were killed or have ended, with the settings of the last `up`.

        Raises:
            StackError: a name is unknown, or a part doesn't become ready.
        """
        with self._alone():
            remembered = self._state()
            chosen = [member for name in names for member in self._members(name)]
            for name, port in self._lost_ports(remembered, chosen):
                raise StackError(
                    f"port {port} of {name} has been taken by somebody else; "
                    "`scripts/stack up` chooses another, and starts anew what uses it"
                )
            self._run(remembered, chosen)

    def environment(self) -> dict[str, str]:
        """How to reach the stack.

        Raises:
            StackError: nothing of it runs.
        """
        if not self._supervisor.running():
            raise StackError(f"no stack runs in {self._folder}")
        return environment.exported(self._folder, self._state())

    def status(self) -> list[tuple[str, Entry | None]]:
        """Each part of the stack, with its process when it runs."""
        running = self._supervisor.running()
        names = self._state().plan.names
        return [(name, running.get(name)) for name in dict.fromkeys([*names, *running])]

    def logs(self, name: str) -> list[Path]:
        """The logs of a server, or of a service's replicas."""
        return [self._supervisor.log(member) for member in self._members(name)]

    def _scale_down(self, request: Request) -> None:
        running = self._supervisor.running()
        for service, count in request.replicas.items():
            kept = {services.replica(service, number) for number in range(1, count + 1)}
            surplus = [name for name, entry in running.items() if group(name) == service and name not in kept]
            if surplus:
                self._report(f"stopping {', '.join(surplus)}")
                self._supervisor.stop(surplus)

    def _plan(self, remembered: State, request: Request) -> None:
        running = self._supervisor.running()
        wanted = overrides(os.environ, self._printed_by_env())
        if wanted:
            self._report(f"taken from your environment: {', '.join(sorted(wanted))}")
        names = replace(request, fakes=request.fakes or fakes.NAME in running).names(wanted, self._report)
        remembered.plan = Plan(names=tuple(dict.fromkeys([*names, *running])), overrides=wanted)
        remembered.secrets.nats = nats.fresh_passwords(remembered.secrets.nats)
        remembered.admin_token = state.admin_token(environment.ADMIN, remembered.secrets.jwt, datetime.now(UTC))

    def _printed_by_env(self) -> set[tuple[str, str]]:
        """What `env` says of this stack, and of the one whose output the caller's shell has taken over."""
        folders = {self._folder, Path(os.environ.get("BA_STACK_DIR", self._folder))}
        states = {folder: state.load(folder) for folder in folders}
        return {
            pair
            for folder, remembered in states.items()
            if remembered is not None
            for pair in environment.exported(folder, remembered).items()
        }

    def _settle_ports(self, remembered: State) -> None:
        lost = list(self._lost_ports(remembered, remembered.plan.names))
        for name, port in lost:
            self._report(f"port {port} of {name} has been taken by somebody else: choosing another")
            del remembered.ports[name]
        missing = [key for name in remembered.plan.names for key in port_names(name) if key not in remembered.ports]
        for name in missing:
            remembered.ports[name] = ports.choose(remembered.ports.values())
        remembered.save(self._folder)
        running = self._supervisor.running()
        stale = [name for name in running if name not in SERVERS]
        if lost and stale:
            self._report(f"stopping {', '.join(stale)}: they know the old ports")
            self._supervisor.stop(stale)

    def _lost_ports(self, remembered: State, names: Iterable[str]) -> Iterator[tuple[str, int]]:
        running = self._supervisor.running()
        for name in names:
            for key in port_names(name):
                port = remembered.ports.get(key)
                if name not in running and port is not None and not ports.is_free(port):
                    yield key, port

    def _run(self, remembered: State, names: Sequence[str]) -> None:
        servers = [self._server(remembered, name) for name in names]
        self._supervisor.start(servers)
        self._supervisor.wait_ready(servers)

    def _set_up(self, remembered: State, servers: Sequence[str]) -> None:
        settings = environment.for_jobs(self._folder, remembered)
        logs = self._folder / "logs"
        first = {postgres.NAME: jobs.MIGRATIONS, nats.NAME: jobs.STREAMS}
        jobs.run([job for name, job in first.items() if name in servers], logs, settings, self._report)
        if postgres.NAME in servers:
            jobs.run([jobs.DEMO], logs, settings, self._report)

    def _server(self, remembered: State, name: str) -> Server:
        numbers = [remembered.ports[key] for key in port_names(name)]
        secrets = remembered.secrets
        match name, numbers:
            case nats.NAME, [port, monitor]:
                return nats.server(self._folder, port, monitor, secrets.nats)
            case fakes.NAME, [fcm, telegram, webhook]:
                return fakes.server(self._folder, (fcm, telegram, webhook), secrets.telegram_token)
            case clickhouse.NAME, [port]:
                return clickhouse.server(self._folder, port, secrets.clickhouse)
            case postgres.NAME, [port]:
                return postgres.server(self._folder, port, secrets.postgres, self._report)
            case _, [port, *_]:
                settings = environment.for_service(self._folder, remembered, group(name))
                return services.server(self._folder, name, port, settings)
            case _:
                raise StackError(f"no port is known for {name}")

    def _members(self, name: str) -> list[str]:
        """The servers and replicas that a name means: all replicas of a service, or one of them."""
        known = dict.fromkeys([*self._state().plan.names, *self._supervisor.running()])
        wanted = name.removesuffix(":1")
        members = [member for member in known if name in (member, group(member)) or member == wanted]
        if not members:
            raise StackError(f"there is no {name} in this stack; it has {', '.join(known) or 'no parts'}")
        return members

    def _state(self) -> State:
        remembered = state.load(self._folder)
        if remembered is None:
            raise StackError(f"no stack was started in {self._folder} yet")
        return remembered

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._folder.exists():
            raise StackError(f"no stack was started in {self._folder} yet")
        with exclusive(self._folder / "lock", self._report, "waiting for another command on this stack"):
            yield


def group(name: str) -> str:
    """The service of a replica; another server's own name."""
    return name.partition(":")[0]


def port_names(name: str) -> tuple[str, ...]:
    """The names under which a server's ports are remembered."""
    return PORTS.get(name, (name,))
