"""scripts/setup, as far as it comes without installing anything."""

import hashlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "dirname", "sha256sum", "flock", "grep", "rm")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup", tmp_path / "scripts/setup")
    (tmp_path / "locks").mkdir()
    for name in ("service", "stack", "test"):
        (tmp_path / "locks" / f"{name}.txt").write_text(f"{name}==1\n")
    # A machine without any Python.
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return tmp_path


def setup(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts/setup", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": str(checkout / "bin")},
    )


def make_venv(checkout: Path, name: str) -> None:
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    digest = hashlib.sha256((checkout / "locks" / f"{name}.txt").read_bytes()).hexdigest()
    (checkout / ".venv/.complete").write_text(f"{name} {digest}  - {checkout}\n")


def needs_python(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 1 and "needs Python 3.11 or newer" in done.stderr


@pytest.mark.parametrize(
    ("there", "wanted"),
    [("service", "service"), ("stack", "stack"), ("stack", "service"), ("test", "test"), ("test", "stack")],
)
def test_a_set_that_holds_the_wanted_one_is_enough(checkout: Path, there: str, wanted: str) -> None:
    make_venv(checkout, there)
    begun = time.monotonic()
    done = setup(checkout, wanted)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - begun < 5


def test_a_machine_without_python_gets_one_clear_line(checkout: Path) -> None:
    done = setup(checkout)
    assert needs_python(done)
    assert len(done.stderr.splitlines()) == 1


def test_a_changed_lock_is_installed_anew(checkout: Path) -> None:
    make_venv(checkout, "stack")
    (checkout / "locks/stack.txt").write_text("stack==2\n")
    assert needs_python(setup(checkout, "stack"))


def test_a_half_made_venv_is_made_anew(checkout: Path) -> None:
    make_venv(checkout, "stack")
    (checkout / ".venv/.complete").unlink()
    assert needs_python(setup(checkout, "stack"))


def test_a_venv_that_was_moved_is_made_anew(checkout: Path) -> None:
    make_venv(checkout, "stack")
    (checkout / ".venv/.complete").write_text(
        (checkout / ".venv/.complete").read_text().replace(str(checkout), "/else")
    )
    assert needs_python(setup(checkout, "stack"))


def test_a_venv_whose_python_has_gone_is_made_anew(checkout: Path) -> None:
    make_venv(checkout, "stack")
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to("/nowhere/python3")
    assert needs_python(setup(checkout, "stack"))


def test_an_unknown_set_is_refused_with_the_known_ones(checkout: Path) -> None:
    done = setup(checkout, "everything")
    assert done.returncode == 2
    assert done.stderr == "scripts/setup: there is no set 'everything'; there are service, stack and test\n"
