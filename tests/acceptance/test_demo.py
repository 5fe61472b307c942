"""scripts/demo from outside, as a newcomer runs it."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from announce_stack import layout
from announce_stack.demo.scenario import SUBSCRIPTIONS
from announce_stack.process import PROC, at_work_in
from announce_stack.supervisor import Supervisor

# Each starts a whole stack, which takes long while CI's two cores do something else.
pytestmark = pytest.mark.timeout(240)

DEMO = layout.REPOSITORY / "scripts" / "demo"
LAST_LINE = "Everything stays up until you press Ctrl-C.\n"
TABLE = """\
ok | to a phone and a chat | HTTP | 202 accepted | 2 sent
ok | to the subscribers | HTTP | 202 accepted | 2 sent
ok | a batch of three | HTTP | 207: 2 accepted, 1 invalid-alert | 2 sent; 1 refused
ok | one that has expired | HTTP | 202 accepted | expired, not tried
ok | the first one again | HTTP | 202 duplicate | dropped, still 2 sent
ok | a bad signature | HTTP | 401 bad-signature | refused
ok | invalid fields | HTTP | 422 invalid-alert: severity, title, colour | refused
ok | to a phone that is gone | HTTP | 202 accepted | dead letter, 1 try: target_gone
ok | while FCM fails twice | HTTP | 202 accepted | sent, 3 tries
ok | to a phone and a chat | NATS | ack | 2 sent
ok | critical, to the subscribers | NATS | ack | 3 sent
ok | invalid fields | NATS | ack | dead letter, not tried: invalid_alert
ok | the first one again | NATS | ack, duplicate | dropped, still 2 sent"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a demo keeps its stack; nothing may be left of it in the end."""
    path = tmp_path / "demo"
    yield path
    left = remains(path)
    Supervisor(path).kill(Supervisor(path).running())
    assert left == []


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts scripts/demo in the folder, in a process group of its own, as a terminal does."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **settings: str) -> subprocess.Popen[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("BA_")}
        argv = [str(DEMO), "--dir", str(folder), *arguments]
        environment = outside | {"COLUMNS": "200"} | settings
        process = subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.send_signal(SIGINT)
            process.communicate()


def remains(folder: Path) -> list[str]:
    """The processes that work in a folder, or that were told of it."""
    there = {process.pid for where in (folder, folder / "postgres") for process in at_work_in(where)}
    told = {int(path.parent.name) for path in PROC.glob("[0-9]*/cmdline") if str(folder) in read(path)}
    return [read(PROC / str(pid) / "cmdline") for pid in there | told]


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def read_until(process: subprocess.Popen[str], said: str) -> str:
    """Reads what it prints, as far as the line that ends so."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.endswith(said):
            return "".join(lines)
    raise AssertionError(f"it ended without saying {said!r}: {''.join(lines)}")


def table(said: str) -> str:
    """The rows of the table, without the times that differ from run to run."""
    rows = [re.split(r"\s{2,}", line) for line in said.splitlines() if re.match(r"(ok|NO)\s", line)]
    return "\n".join(" | ".join(cell for cell in row if not cell.isdecimal()) for row in rows)


def part(said: str, heading: str) -> str:
    """What stands below a heading, to the next blank line that another heading follows."""
    return re.split(r"\n\n(?=[A-Z])", said.partition(f"\n{heading}")[2].partition("\n")[2])[0]


def bash(script: str, where: Path) -> str:
    return subprocess.run(["bash", "-e"], input=script, cwd=where, check=True, capture_output=True, text=True).stdout


def test_it_stays_up_for_alerts_of_ones_own_until_ctrl_c(start: Start, folder: Path, tmp_path: Path) -> None:
    demo = start()
    said = read_until(demo, LAST_LINE)
    assert table(said) == TABLE
    assert "\033" not in said

    by_http = bash(part(said, "An alert of your own"), tmp_path)
    assert re.match(r'{"alert_id":"auto-\w+","status":"accepted"}\n{"received":\[.*"target":"my-phone"', by_http)
    assert "My first alert" in by_http
    by_nats = bash(part(said, "And one over NATS"), tmp_path)
    assert re.match(r"PubAck\(stream='BA_ALERTS'.*\n{\"received\":\[.*\"target\":\"5\"", by_nats)
    assert re.search(r"Mine, by NATS", by_nats)
    rows = bash(part(said, "What the database says"), tmp_path)
    assert re.search(r"\| my-phone +\| +1 \| sent", rows)
    for url in re.findall(r"http://\S+(?:/metrics|/ping|/received)$", said, re.MULTILINE):
        assert bash(f"curl -sSf {url}", tmp_path)
    assert "ingestd                  runs" in bash(part(said, "What else to try").partition("  #")[0], tmp_path)

    other = start("--once")
    assert f"scripts/demo: another demo runs in {folder}" in other.communicate()[0]
    assert other.returncode == 1

    demo.send_signal(SIGINT)
    assert "Everything has been taken down: no process is left." in demo.communicate()[0]
    assert demo.returncode == 0


def test_a_demo_goes_on_in_the_folder_of_one_that_was_killed(start: Start, folder: Path) -> None:
    killed = start()
    read_until(killed, "nats is ready\n")
    killed.send_signal(SIGKILL)
    killed.communicate()
    assert remains(folder)

    once = start("--once", BA_FCM_BASE_URL="http://127.0.0.1:1")
    said = once.communicate()[0]
    assert once.returncode == 0, said
    assert "an earlier demo was ended by force" in said
    assert "not used from your environment: BA_FCM_BASE_URL" in said
    assert table(said) == TABLE
    assert f"{len(SUBSCRIPTIONS)} subscriptions" in said


@pytest.mark.parametrize("moment", ["in {folder}", "is ready"])
def test_ctrl_c_while_it_starts_leaves_nothing(start: Start, folder: Path, moment: str) -> None:
    demo = start()
    read_until(demo, moment.format(folder=folder) + "\n")
    os.killpg(demo.pid, SIGINT)
    said = demo.communicate()[0]
    assert "scripts/demo: interrupted; nothing was left running" in said
    assert "Traceback" not in said
    # Python ends itself with the signal when it came while a module was being loaded.
    assert demo.returncode in (130, -SIGINT)


def test_a_stack_of_somebody_elses_is_left_alone(start: Start, folder: Path) -> None:
    stack = layout.module("announce_stack")
    subprocess.run([*stack, "up", "--only", "nats", "--dir", str(folder)], check=True, capture_output=True)
    try:
        demo = start("--once")
        assert f"a stack that no demo has started runs in {folder}" in demo.communicate()[0]
        assert demo.returncode == 1
        assert Supervisor(folder).running().keys() == {"nats"}
    finally:
        subprocess.run([*stack, "down", "--dir", str(folder)], check=True, capture_output=True)


def test_a_folder_that_can_not_be_used_is_one_clear_line(start: Start, folder: Path) -> None:
    folder.write_text("a file")
    demo = start("--once")
    assert demo.communicate()[0] == f"scripts/demo: {folder} can't be used: File exists\n"
    assert demo.returncode == 1
    folder.unlink()
