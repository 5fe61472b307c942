import subprocess
import sys
from pathlib import Path

import pytest

from announce_stack.demo import folder
from announce_stack.demo.folder import IN_USE, LOCK, OccupiedError, claimed
from announce_stack.failure import StackError
from announce_stack.server import Server
from announce_stack.supervisor import Supervisor


@pytest.fixture(autouse=True)
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folder, "DEFAULT", tmp_path / "demo")
    return tmp_path / "demo"


def test_a_second_demo_takes_the_next_folder(default: Path) -> None:
    with claimed(None) as first, claimed(None) as second, claimed(None) as third:
        assert [first, second, third] == [default, default.with_name("demo-2"), default.with_name("demo-3")]
    with claimed(None) as again:
        assert again == default


def test_a_folder_that_was_asked_for_is_not_shared(tmp_path: Path) -> None:
    with claimed(tmp_path), pytest.raises(OccupiedError, match="another demo runs in"), claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


def test_only_what_a_demo_has_left_running_is_taken_over(default: Path) -> None:
    default.mkdir()
    supervisor = Supervisor(default)
    sleeper = Server(
        name="nats",
        argv=(sys.executable, "-c", "import signal; signal.pause()"),
        folder=default,
        ready=lambda: True,
    )
    supervisor.start([sleeper])
    try:
        with pytest.raises(OccupiedError, match="a stack that no demo has started"), claimed(default):
            pass
        with claimed(None) as beside:
            assert beside != default
        (default / LOCK).write_text(IN_USE)
        with claimed(None) as taken_over:
            assert taken_over == default
    finally:
        supervisor.kill(["nats"])


def test_the_mark_stays_only_when_a_demo_was_ended_by_force(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from announce_stack.demo.folder import claimed
with claimed(Path(sys.argv[1])):
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert (tmp_path / LOCK).read_text() == IN_USE
    with pytest.raises(ZeroDivisionError), claimed(tmp_path):
        raise ZeroDivisionError
    assert (tmp_path / LOCK).read_text() == ""


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(StackError, match=r"file/demo can't be used: Not a directory"),
        claimed(tmp_path / "file" / "demo"),
    ):
        pass
