import argparse
import asyncio
import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path

from announce_stack.demo import guide, interruption, summary
from announce_stack.demo.console import Console, Style
from announce_stack.demo.folder import claimed
from announce_stack.demo.lifetime import standing_stack
from announce_stack.demo.performance import perform
from announce_stack.failure import StackError

FAILED = 1
# These say how to get and run the servers, and reach nothing outside.
KEPT_SETTINGS = frozenset({"BA_PG_BIN", "BA_DEBIAN_MIRROR"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns its exit status: 0 when every alert went as it should."""
    options = _parser().parse_args(arguments)
    console = Console(sys.stdout, os.environ)
    try:
        with claimed(options.dir) as folder:
            well = _run(folder, console, once=options.once)
    except StackError as failure:
        print(f"scripts/demo: {failure}", file=sys.stderr)
        return FAILED
    return 0 if well else FAILED


def _run(folder: Path, console: Console, *, once: bool) -> bool:
    console.progress(f"starting the whole system, with fake providers, in {folder}")
    if ignored := _shut_out(os.environ):
        console.progress(f"not used from your environment: {', '.join(ignored)}")
    with standing_stack(folder, console.progress) as environment:
        well = summary.show(asyncio.run(perform(environment, console.progress)), console)
        if not once and console.read:
            guide.show(folder, environment, console)
            console.heading("Everything stays up until you press Ctrl-C.")
            interruption.wait()
        console.line()
    console.line("Everything has been taken down: no process is left.", Style.BOLD)
    console.line(f"The data and the logs stay in {folder}; the next demo there goes on with them.")
    return well


def _shut_out(environment: MutableMapping[str, str]) -> list[str]:
    """Removes settings that the services would take from the caller: real credentials have no place in a demo."""
    names = sorted(name for name in environment if name.startswith("BA_") and name not in KEPT_SETTINGS)
    for name in names:
        del environment[name]
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Starts the whole system on this machine with fake providers, sends real alerts through it, shows "
        "what became of each and where to look, and stays up until Ctrl-C.",
    )
    parser.add_argument(
        "--once", action="store_true", help="end after the table; exit status 0 only if every alert went as it should"
    )
    parser.add_argument(
        "--dir", type=_folder, metavar="DIR", help="the stack's folder (.stack/demo, or the next that is free)"
    )
    return parser


def _folder(text: str) -> Path:
    return Path(text).resolve()
