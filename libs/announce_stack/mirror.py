"""Finds the Debian mirror that this machine uses, so that none has to be named in the repository."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path

from announce_stack.failure import StackError

CODENAMES = {"buster", "bullseye", "bookworm", "trixie", "forky", "duke", "sid"}
DEBIAN_SUITES = CODENAMES | {"oldoldstable", "oldstable", "stable", "testing", "unstable"}


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of apt's sources: binary packages of some suites at some addresses."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse_list(text: str) -> Iterator[Source]:
    """Reads the one-line format of sources.list(5): `deb [options] uri suite component…`."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] != "deb":
            continue
        rest = _without_options(words[1:])
        if len(rest) >= 3:  # noqa: PLR2004 - a URI, a suite and at least one component
            yield Source((rest[0],), (rest[1],), tuple(rest[2:]))


def _without_options(words: list[str]) -> list[str]:
    if not words or not words[0].startswith("["):
        return words
    end = next((at for at, word in enumerate(words) if word.endswith("]")), len(words))
    return words[end + 1 :]


def parse_deb822(text: str) -> Iterator[Source]:
    """Reads the stanza format of sources.list(5), with its comments, continuation lines and `Enabled: no`."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in "\n".join(line.rstrip() for line in lines).split("\n\n"):
        fields = message_from_string(stanza.strip("\n"))
        if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes").lower() != "no":
            yield Source(
                tuple(fields.get("URIs", "").split()),
                tuple(fields.get("Suites", "").split()),
                tuple(fields.get("Components", "").split()),
            )


def debian_mirror(sources: Iterable[Source]) -> str | None:
    """The first address that serves a release of Debian itself; security and foreign archives don't."""
    for source in sources:
        if "main" in source.components and DEBIAN_SUITES.intersection(source.suites):
            for uri in source.uris:
                if not uri.startswith("cdrom:"):
                    return uri
    return None


def machine_mirror(etc: Path = Path("/etc/apt")) -> str:
    """The mirror named by BA_DEBIAN_MIRROR, or else the one in the machine's own apt sources.

    Raises:
        StackError: neither names one.
    """
    mirror = os.environ.get("BA_DEBIAN_MIRROR") or debian_mirror(_sources(etc))
    if mirror is None:
        raise StackError(
            "apt's sources on this machine name no Debian mirror to fetch TimescaleDB from. Set BA_DEBIAN_MIRROR "
            "to one, or BA_PG_BIN to the bin folder of a Postgres that has the timescaledb extension."
        )
    return mirror


def _sources(etc: Path) -> Iterator[Source]:
    parts = etc / "sources.list.d"
    for path in [etc / "sources.list", *sorted(parts.glob("*.list"))]:
        if path.is_file():
            yield from parse_list(path.read_text())
    for path in sorted(parts.glob("*.sources")):
        yield from parse_deb822(path.read_text())
