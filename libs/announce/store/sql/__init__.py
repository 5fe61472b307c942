"""SQL in named blocks: `-- name: <block>` begins one, in `<family>.sql` beside this file."""

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(family: str) -> Mapping[str, str]:
    """Return the blocks of one file, by name."""
    text = files(__name__).joinpath(f"{family}.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return MappingProxyType(dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True)))
