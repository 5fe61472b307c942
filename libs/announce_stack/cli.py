import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from announce_stack import layout
from announce_stack.failure import StackError
from announce_stack.report import Stopwatch, to_stderr
from announce_stack.request import SERVERS, Request
from announce_stack.services import SERVICES
from announce_stack.stack import Stack

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (StackError, OSError) as failure:
        print(f"scripts/stack: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("scripts/stack: interrupted; `scripts/stack down` ends what was started", file=sys.stderr)
        return INTERRUPTED


def _up(options: argparse.Namespace) -> int:
    report = Stopwatch()
    request = Request(fakes=options.fakes, replicas=dict(options.replicas), only=options.only)
    Stack(options.dir, report).up(request)
    where = "" if options.dir == layout.DEFAULT_FOLDER else f" --dir {options.dir}"
    report(f"ready. Logs: {options.dir}/logs. Addresses and secrets: scripts/stack env{where}")
    return 0


def _down(options: argparse.Namespace) -> int:
    Stack(options.dir, Stopwatch()).down()
    return 0


def _status(options: argparse.Namespace) -> int:
    parts = Stack(options.dir, to_stderr).status()
    for name, entry in parts:
        if entry is None:
            print(f"{name:24} ended")
        else:
            ports = ", ".join(map(str, entry.ports))
            print(f"{name:24} runs   pid {entry.process.pid}, port {ports}, for {entry.process.age_s():.0f} s")
    return 0 if any(entry for _, entry in parts) else 1


def _env(options: argparse.Namespace) -> int:
    for name, value in Stack(options.dir, to_stderr).environment().items():
        print(f"{name}={value}")
    return 0


def _logs(options: argparse.Namespace) -> int:
    files = [str(path) for path in Stack(options.dir, to_stderr).logs(options.name) if path.exists()]
    if not files:
        raise StackError(f"{options.name} has written no log yet")
    follow = ["-F"] if options.follow else []
    # -q only leaves out the headers that tell several files apart.
    quiet = ["-q"] if len(files) == 1 else []
    return subprocess.run(["tail", "-n", "+1", *quiet, *follow, *files], check=False).returncode


def _kill(options: argparse.Namespace) -> int:
    Stack(options.dir, to_stderr).kill(options.names)
    return 0


def _start(options: argparse.Namespace) -> int:
    Stack(options.dir, Stopwatch()).start(options.names)
    return 0


def _parser() -> argparse.ArgumentParser:
    parts = ", ".join((*SERVICES, *SERVERS))
    parser = argparse.ArgumentParser(prog="scripts/stack", description="Runs the whole system on this machine.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add = partial(_add_command, commands)

    up = add("up", _up, "start what doesn't run yet, and return when all is ready")
    up.add_argument("--fakes", action="store_true", help="with fake providers, and the services using them")
    up.add_argument("--replicas", action="append", default=[], type=_replicas, metavar="SERVICE=N")
    up.add_argument("--only", default=(), type=_names, metavar="NAME,…", help=f"only these of: {parts}")

    add("down", _down, "end everything; services get time to finish their work")
    add("status", _status, "show what runs")
    add("env", _env, "print addresses and secrets as KEY=VALUE lines")

    logs = add("logs", _logs, "print the log of a server or service")
    logs.add_argument("name", metavar="NAME")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")

    for name, command, does in (("kill", _kill, "end with SIGKILL"), ("start", _start, "start what has ended")):
        add(name, command, does).add_argument("names", nargs="+", metavar="NAME", help=f"{parts}, or SERVICE:2")
    return parser


def _add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    command: Callable[[argparse.Namespace], int],
    does: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=does, description=does)
    parser.set_defaults(command=command)
    parser.add_argument(
        "--dir", type=_folder, default=layout.DEFAULT_FOLDER, metavar="DIR", help="the stack's folder (.stack/default)"
    )
    return parser


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _replicas(text: str) -> tuple[str, int]:
    service, _, count = text.partition("=")
    if not count.isdecimal() or int(count) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not SERVICE=N with N at least 1")
    return service, int(count)
