"""Writes .env.example from the settings that the code declares; with --check, tells whether it is in step."""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pydantic import SecretStr
from pydantic.fields import FieldInfo

import announce
from announce.runtime.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / ".env.example"
HEAD = """\
# Every setting of every service, with its default. Written by `scripts/checks/env_example.py`; don't edit it by hand.
# A variable that is commented out has the default shown; one without a value must be set.
"""


def settings_modules() -> Iterator[ModuleType]:
    """Import every module called `settings`, and the one that has what all services share."""
    for info in pkgutil.walk_packages(announce.__path__, "announce."):
        if info.name.endswith(".settings"):
            yield importlib.import_module(info.name)
    for folder in sorted((ROOT / "services").iterdir()):
        if (folder / "settings.py").is_file():
            yield importlib.import_module(f"{folder.name}.settings")


def variable(owner: type[Settings], name: str, field: FieldInfo) -> str:
    """Describe one variable."""
    default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    if isinstance(default, Path) and default.is_relative_to(ROOT):
        default = default.relative_to(ROOT)
    name = f"{owner.model_config['env_prefix']}{name}".upper()
    line = f"{name}=" if field.is_required() else f"# {name}={'' if default is None else default}"
    return f"# {field.description}\n{line}\n"


def example() -> str:
    """Return the file's text."""
    sections = [HEAD]
    for module in settings_modules():
        for owner in vars(module).values():
            if not (isinstance(owner, type) and issubclass(owner, Settings) and owner.__module__ == module.__name__):
                continue
            own = [name for name in owner.__annotations__ if name in owner.model_fields]
            if own:
                sections.append(f"# --- {owner.__doc__}\n")
                sections += [variable(owner, name, owner.model_fields[name]) for name in own]
    return "\n".join(sections)


def main() -> int:
    """Write the file, or compare it."""
    if "--check" not in sys.argv:
        EXAMPLE.write_text(example(), "utf-8")
        return 0
    if EXAMPLE.is_file() and EXAMPLE.read_text("utf-8") == example():
        print(".env.example is in step with the code")
        return 0
    print(".env.example is out of step with the code: run .venv/bin/python scripts/checks/env_example.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
