"""The supervisor with small real processes."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from announce_stack.failure import StackError
from announce_stack.process import at_work_in
from announce_stack.server import Server
from announce_stack.supervisor import Supervisor

POLITE = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit()); open('up', 'w'); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('up', 'w'); signal.pause(); signal.pause()"
)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path)
    yield supervisor
    supervisor.kill(supervisor.running())
    assert at_work_in(tmp_path) == []


def server(supervisor: Supervisor, program: str = POLITE, ready: Callable[[], bool] | None = None) -> Server:
    return Server(
        name="part:2",
        argv=(sys.executable, "-c", program),
        folder=supervisor.folder,
        ready=ready or (supervisor.folder / "up").exists,
    )


def test_what_runs_is_known_to_the_next_supervisor_and_left_alone(supervisor: Supervisor) -> None:
    part = server(supervisor)
    assert supervisor.start([part]) == [part]
    supervisor.wait_ready([part])
    other = Supervisor(supervisor.folder)
    before = other.running()
    assert before.keys() == {"part:2"}
    assert other.start([part]) == []
    assert other.running() == before


def test_it_starts_again_what_was_killed(supervisor: Supervisor) -> None:
    part = server(supervisor)
    supervisor.start([part])
    killed = supervisor.running()["part:2"].process
    supervisor.kill(["part:2"])
    assert supervisor.running() == {}
    assert not killed.is_alive()
    assert supervisor.start([part]) == [part]
    assert supervisor.running()["part:2"].process != killed


def test_a_server_gets_its_settings_and_nobody_elses(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("BA_PG_DSN", "another stack's")
    program = "import os; print(sorted(name for name in os.environ if name.startswith(('BA_', 'PG'))), flush=True);"
    part = replace(server(supervisor, program + POLITE), environment={"BA_OWN": "x"})
    supervisor.start([part])
    supervisor.wait_ready([part])
    assert supervisor.log("part:2").read_text() == "['BA_OWN']\n"


def test_one_that_ends_before_it_is_ready_is_reported_with_its_last_lines(supervisor: Supervisor) -> None:
    part = server(supervisor, "import sys; print('line\\n' * 50, flush=True); sys.exit('the reason')")
    supervisor.start([part])
    with pytest.raises(StackError, match=r"part:2 ended before it was ready(.|\n)*the reason") as failure:
        supervisor.wait_ready([part])
    assert len(str(failure.value).splitlines()) < 20


def test_one_that_never_gets_ready_is_reported_in_time(supervisor: Supervisor) -> None:
    part = server(supervisor, ready=lambda: False)
    supervisor.start([part])
    with pytest.raises(StackError, match="was not ready within 0 s"):
        supervisor.wait_ready([part], timeout_s=0.1)


def test_a_server_that_ends_when_asked_is_not_waited_for_longer(supervisor: Supervisor) -> None:
    part = server(supervisor)
    supervisor.start([part])
    supervisor.wait_ready([part])
    begun = time.monotonic()
    supervisor.stop(["part:2"])
    assert supervisor.running() == {}
    assert time.monotonic() - begun < 10


def test_a_server_that_does_not_end_when_asked_is_killed_after_its_grace(tmp_path: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor(tmp_path, said.append)
    part = server(supervisor, STUBBORN)
    supervisor.start([part])
    supervisor.wait_ready([part])
    supervisor.stop(["part:2"], grace_s=0.2)
    assert supervisor.running() == {}
    assert any("killed" in line for line in said)


@pytest.mark.parametrize("end", [Supervisor.kill, Supervisor.stop])
def test_no_child_process_stays_behind(supervisor: Supervisor, end: Callable[[Supervisor, list[str]], None]) -> None:
    child = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True);"
    part = server(supervisor, child + POLITE)
    supervisor.start([part])
    supervisor.wait_ready([part])
    assert len(at_work_in(supervisor.folder)) == 2
    end(supervisor, ["part:2"])
    assert at_work_in(supervisor.folder) == []


def test_a_server_can_be_interrupted_though_the_caller_ignores_it(supervisor: Supervisor) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        part = server(supervisor, "open('up', 'w'); import time; time.sleep(60)")
        supervisor.start([part])
    finally:
        signal.signal(signal.SIGINT, before)
    supervisor.wait_ready([part])
    process = supervisor.running()["part:2"].process
    process.send(signal.SIGINT)
    assert process.wait(10)
