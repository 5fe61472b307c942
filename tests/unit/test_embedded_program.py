"""How the program refuses to start: one line that says why."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest


def start(*arguments: str | Path, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "announce.archive.embedded", *map(str, arguments)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_it_listens_on_loopback_only(host: str, tmp_path: Path) -> None:
    status, line = start("--path", tmp_path / "data", "--port", "0", "--host", host)
    assert status == 2
    assert f"{host} is not a loopback address" in line
    assert not (tmp_path / "data").exists()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "status").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert start("--path", tmp_path, "--port", "0") == (1, f"clickhouse: another process holds {tmp_path}")


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    status, line = start("--path", file, "--port", "0")
    assert status == 1
    assert str(file) in line
    assert start("--path", tmp_path / "a?b", "--port", "0")[0] == 1
