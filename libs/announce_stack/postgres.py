import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from signal import SIGINT

from announce_stack import prefix
from announce_stack.account import Account, unprivileged
from announce_stack.failure import StackError
from announce_stack.process import at_work_in
from announce_stack.readiness import LOOPBACK, takes_queries
from announce_stack.report import Report, silent, timed
from announce_stack.server import Server

NAME = "postgres"
ROLE = "announce"
DATABASE = "announce"
# The superuser has no password and no line here: nothing in the stack needs more than the role may do.
ACCESS = f"host all {ROLE} {LOOPBACK}/32 scram-sha-256\n"
OLDEST = 14
LEFTOVERS_TIMEOUT_S = 10.0

SETTINGS = {
    "listen_addresses": LOOPBACK,
    # A socket's path may be at most 107 bytes long, and the stack's folder can lie anywhere.
    "unix_socket_directories": "",
    "shared_preload_libraries": "timescaledb",
    "max_connections": "200",
    # The same as UTC, and known to Postgres even on a machine without tzdata.
    "timezone": "GMT",
    "log_timezone": "GMT",
    "jit": "off",
    "timescaledb.telemetry_level": "off",
    # The Apache edition has no policies for its schedulers to run, and a scheduler's connection would keep a
    # database from being used as a template.
    "timescaledb.max_background_workers": "0",
}


def server(folder: Path, port: int, password: str, report: Report = silent) -> Server:
    """TimescaleDB with its data in `folder`/postgres, and the database and role `announce`.

    The role owns the database and may create others; it is no superuser.

    Args:
        folder: an existing folder.
        port: where it listens, on loopback only.
        password: the role's.
        report: told what takes long: the download of Postgres, and the making of the data.

    Raises:
        StackError: there is no Postgres with TimescaleDB, and none can be had.
    """
    programs = find_programs(report)
    data = folder / NAME
    account = unprivileged()
    settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
    return Server(
        name=NAME,
        argv=(str(programs / "postgres"), "-D", str(data), f"--port={port}", *settings),
        folder=folder,
        ready=takes_queries(programs / "pg_isready", port, ROLE),
        ports=(port,),
        prepare=partial(_prepare, programs, data, account, password, report),
        account=account,
        # Postgres' fast shutdown: SIGTERM would wait for every client to go.
        stop_signal=SIGINT,
    )


def dsn(port: int, password: str, database: str = DATABASE) -> str:
    """The URL of a database on the server at `port`."""
    return f"postgresql://{ROLE}:{password}@{LOOPBACK}:{port}/{database}"


def find_programs(report: Report) -> Path:
    """The bin folder to use: BA_PG_BIN, a system Postgres that has TimescaleDB, or the private prefix.

    Raises:
        StackError: BA_PG_BIN holds no Postgres, or the prefix can't be built.
    """
    if chosen := os.environ.get("BA_PG_BIN"):
        programs = Path(chosen)
        if not (programs / "postgres").is_file():
            raise StackError(f"BA_PG_BIN: there is no program `postgres` in {programs}")
        return programs
    return _system_programs() or prefix.ensure(report)


def _system_programs() -> Path | None:
    versions = [path.name for path in Path("/usr/lib/postgresql").glob("*") if path.name.isdigit()]
    for version in sorted((v for v in versions if int(v) >= OLDEST), key=int, reverse=True):
        programs = Path("/usr/lib/postgresql", version, "bin")
        control = Path("/usr/share/postgresql", version, "extension/timescaledb.control")
        if control.is_file() and (programs / "postgres").is_file() and (programs / "pg_isready").is_file():
            return programs
    return None


def _prepare(programs: Path, data: Path, account: Account | None, password: str, report: Report) -> None:
    if not data.exists():
        with timed(report, "made the database's folder"):
            _initialise(programs, data, account, password)
    _clear_the_way(data)


def _initialise(programs: Path, data: Path, account: Account | None, password: str) -> None:
    draft = data.with_name(f"{data.name}.draft")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    if account:
        os.chown(draft, account.uid, account.gid)
    initdb = [str(programs / "initdb"), "-D", str(draft), "-U", "postgres", "--encoding=UTF8", "--locale=C.UTF-8"]
    _run([*initdb, "--no-sync", "--auth=trust"], account)
    (draft / "pg_hba.conf").write_text(ACCESS)
    single = [str(programs / "postgres"), "--single", "-D", str(draft), "-c", "exit_on_error=on", "postgres"]
    _run(
        single,
        account,
        f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{password}'\nCREATE DATABASE {DATABASE} OWNER {ROLE}\n",
    )
    draft.rename(data)


def _run(argv: list[str], account: Account | None, given: str = "") -> None:
    command = account.command(argv) if account else argv
    done = subprocess.run(
        command, check=False, input=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise StackError(f"{Path(argv[0]).name} failed with status {done.returncode}: {done.stdout.strip()}")


def _clear_the_way(data: Path) -> None:
    """Makes a start possible after a SIGKILL.

    The children of a killed postmaster end by themselves, and until then no other may have the data. The lock
    file stays behind, and Postgres refuses to start when its pid is by then that of another process.
    """
    for process in at_work_in(data.resolve()):
        if not process.wait(LEFTOVERS_TIMEOUT_S):
            raise StackError(f"process {process.pid} still works on {data}")
    (data / "postmaster.pid").unlink(missing_ok=True)
