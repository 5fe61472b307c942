"""Downloads Debian packages with a private apt: no root, and nothing of the machine's own apt is touched."""

import hashlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from announce_stack.failure import StackError
from announce_stack.report import Report

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# How to reach a mirror is the machine's to know (proxies, certificates, clocks); what to trust is not.
MACHINE_OPTIONS = re.compile(r"Acquire::(https?|ftp|Check-Valid-Until|Check-Date|ForceIPv[46])\b")
PROGRESS_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Package:
    """A .deb as apt's signed index describes it."""

    path: Path
    sha256: str

    @property
    def name(self) -> str:
        """The package's name, without version and architecture."""
        return self.path.name.partition("_")[0]

    def is_intact(self) -> bool:
        """Whether the file is there and holds the bytes that the index promises."""
        if not self.path.is_file():
            return False
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


class PrivateApt:
    """apt with its configuration, sources, state and cache in one folder, for one suite's `main`."""

    def __init__(self, folder: Path, mirror: str, suite: str) -> None:
        self._folder = folder
        self._archives = folder / "archives"
        self._config = folder / "apt.conf"
        self._lay_out(mirror, suite)

    def _lay_out(self, mirror: str, suite: str) -> None:
        if not KEYRING.is_file():
            raise StackError(f"{KEYRING} is missing: install the package debian-archive-keyring")
        for part in ("etc/parts", "lists/partial", "archives/partial", "nothing/partial", "log"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        source = f"deb [signed-by={KEYRING}] {mirror} {suite} main\n"
        (self._folder / "etc/sources.list").write_text(source)
        self._config.write_text(self._configuration())

    def _configuration(self) -> str:
        folder = self._folder
        options = {
            "Dir::Etc": f"{folder}/etc",
            "Dir::Etc::Parts": f"{folder}/etc/parts",
            "Dir::Etc::netrc": "/etc/apt/auth.conf",
            "Dir::Etc::netrcparts": "/etc/apt/auth.conf.d",
            "Dir::State": str(folder),
            "Dir::State::lists": f"{folder}/lists",
            "Dir::State::status": f"{folder}/status",
            "Dir::Cache": str(folder),
            "Dir::Cache::archives": str(self._archives),
            "Dir::Log": f"{folder}/log",
            # apt's own user could not write into a folder below somebody's home.
            "APT::Sandbox::User": "",
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Acquire::ForceHash": "SHA256",
            "DPkg::Use-Pty": "false",
        }
        lines = [f'{name} "{value}";' for name, value in options.items()]
        return "\n".join(lines + _machine_options()) + "\n"

    def update(self) -> None:
        """Fetches the suite's index and checks its signature.

        Raises:
            StackError: it can't be had or isn't signed by Debian's keys.
        """
        for _ in self._run("update", "--error-on=any"):
            pass

    def download(self, names: Sequence[str], report: Report) -> list[Package]:
        """Fetches packages and all that they depend on, keeping what an earlier try has left intact.

        Raises:
            StackError: one of them can't be had.
        """
        packages = self._plan(names)
        for package in packages:
            if not package.is_intact():
                # apt itself looks no further than at the size of what it finds here.
                package.path.unlink(missing_ok=True)
        self._fetch(names, len(packages), report)
        damaged = [package.name for package in packages if not package.is_intact()]
        if damaged:
            raise StackError(f"packages that don't match the signed index: {', '.join(damaged)}")
        return packages

    def _plan(self, names: Sequence[str]) -> list[Package]:
        nothing_there = f"Dir::Cache::archives={self._folder}/nothing"
        lines = self._run("install", "--print-uris", "-qq", "-o", nothing_there, *names)
        return [self._package(line) for line in lines if line.startswith("'")]

    def _package(self, line: str) -> Package:
        _uri, name, _size, digest = shlex.split(line)
        kind, _, sha256 = digest.partition(":")
        if kind != "SHA256":
            raise StackError(f"apt gives no SHA256 for {name}")
        return Package(self._archives / name, sha256)

    def _fetch(self, names: Sequence[str], total: int, report: Report) -> None:
        fetched = 0
        shown = time.monotonic()
        for line in self._run("install", "--yes", "--download-only", *names):
            if line.startswith("Need to get"):
                report(f"downloading {line.removeprefix('Need to get ').rstrip('.')}")
            fetched += line.startswith("Get:")
            if fetched and time.monotonic() - shown > PROGRESS_INTERVAL_S:
                shown = time.monotonic()
                report(f"downloading: {fetched} of {total} packages")

    def _run(self, *arguments: str) -> Iterator[str]:
        environment = os.environ | {"APT_CONFIG": str(self._config), "LC_ALL": "C.UTF-8"}
        said: list[str] = []
        with subprocess.Popen(
            ["apt-get", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as apt:
            for line in apt.stdout or ():
                said.append(line.rstrip())
                yield said[-1]
        if apt.returncode:
            told = [line for line in said if line.startswith(("E:", "W:"))] or said[-5:]
            raise StackError(f"apt-get {arguments[0]} failed: {' '.join(told)}")


def _machine_options() -> list[str]:
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    return [line for line in dump.splitlines() if MACHINE_OPTIONS.match(line)]
