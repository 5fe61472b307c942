import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM

import msgspec
import pytest

from announce_stack.process import Process, at_work_in, identify


@pytest.fixture
def sleeper() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "60"]) as child:
        process = identify(child.pid)
        assert process is not None
        yield process
        child.kill()


def test_the_process_itself_is_alive(sleeper: Process) -> None:
    assert sleeper.is_alive()
    assert identify(os.getpid()) != sleeper


def test_a_recycled_pid_is_another_process(sleeper: Process) -> None:
    earlier = msgspec.structs.replace(sleeper, started=f"{sleeper.started}0")
    assert not earlier.is_alive()
    earlier.send(SIGKILL)
    assert earlier.wait(5)
    assert sleeper.is_alive()


def test_a_pid_of_an_earlier_boot_is_another_process(sleeper: Process) -> None:
    ticks = sleeper.started.rpartition(":")[2]
    assert not msgspec.structs.replace(sleeper, started=f"another-boot:{ticks}").is_alive()


def test_waiting_ends_as_soon_as_the_process_does(sleeper: Process) -> None:
    assert not sleeper.wait(0.01)
    sleeper.send(SIGTERM)
    begun = time.monotonic()
    assert sleeper.wait(30)
    assert time.monotonic() - begun < 10


def test_an_ended_process_that_nobody_waited_for_is_not_alive() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    process = identify(pid)
    assert process is not None
    assert process.wait(10)
    assert not process.is_alive()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_an_absent_process_takes_no_signal_and_keeps_nobody_waiting() -> None:
    absent = Process(2**22 + 1, "nowhere:1")
    absent.send(SIGKILL)
    assert absent.wait(30)
    assert identify(absent.pid) is None


def test_the_family_has_descendants_even_of_another_session() -> None:
    program = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '60'], start_new_session=True);"
        "print(child.pid, flush=True); child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        process = identify(parent.pid)
        assert process is not None
        family = process.family()
        assert [relative.pid for relative in family] == [child]
        for each in (process, *family):
            each.send(SIGKILL)
        assert all(relative.wait(10) for relative in family)


def test_processes_are_found_by_the_folder_they_work_in(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as child:
        found = at_work_in(tmp_path)
        child.kill()
    assert [process.pid for process in found] == [child.pid]


def test_an_age_is_counted_from_the_start(sleeper: Process) -> None:
    assert 0 <= sleeper.age_s() < 60
