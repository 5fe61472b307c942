import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
NATS_CONFIG = REPOSITORY / "deploy" / "nats" / "nats.conf"
DEFAULT_FOLDER = REPOSITORY / ".stack" / "default"


def cache_folder() -> Path:
    """Where downloads and what is built of them are kept: outside the repository, shared by all stacks."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "broad-announce"


def venv_program(name: str) -> Path:
    """A program that a package has put beside the running Python."""
    return Path(sys.executable).parent / name


def module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module; what lies in the current folder can't take an import's place (`-P`)."""
    return (sys.executable, "-P", "-m", name, *arguments)
