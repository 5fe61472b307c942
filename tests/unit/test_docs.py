import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from announce.model.alert import Alert
from announce.model.reason import Reason
from announce.model.signature import sign
from announce_stack import environment, fakes, nats, request
from announce_stack.services import SERVICES
from announce_stack.state import Plan, State
from ingestd.problems import Kind
from tests.metrics import metric_series

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
STREAMS = {"BA_ALERTS", "BA_DELIVER", "BA_OUTCOMES", "BA_EVENTS", "BA_DEFERRED", "BA_ADVISORIES", "BA_PACE"}
# The company and the channel that the documents have the reader add.
EXAMPLE = re.compile("acme|sms", re.IGNORECASE)

every_document = pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    return re.split(rf"(?m)^#{{2,{len(level)}}} ", text.split(f"\n{heading}\n", 1)[1])[0]


def column(text: str, number: int) -> list[str]:
    """Return the words in backquotes of one column of the tables in a text."""
    rows = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row[number])]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def anchors(path: Path) -> Iterator[str]:
    for heading in re.findall(r"(?m)^#+ (.+)$", path.read_text("utf-8")):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def stack_variables() -> set[str]:
    """Name everything that `scripts/stack` prints or reads."""
    ports = (*SERVICES, *request.SERVERS, nats.MONITOR, fakes.FCM, fakes.TELEGRAM, fakes.WEBHOOK)
    state = State(ports=dict.fromkeys(ports, 1), plan=Plan(names=(*SERVICES, *request.SERVERS)))
    return set(environment.exported(Path(), state)) | request.FOR_THE_STACK


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not anchor or anchor in set(anchors(target)), link


@every_document
def test_files_that_are_named_exist(document: Path) -> None:
    for path in re.findall(
        r"`((?:deploy|docs|libs|locks|migrations|scripts|services|tests)/[\w./*-]*)`", document.read_text("utf-8")
    ):
        assert EXAMPLE.search(path) or list(ROOT.glob(path.rstrip("/"))), path


@every_document
def test_commands_name_programs_that_exist(document: Path) -> None:
    commands = "\n".join(blocks(document.read_text("utf-8"), "sh"))
    for path in re.findall(r"(?:deploy|scripts|tests)/[\w./-]+", commands):
        assert (ROOT / path).exists(), path
    for module in re.findall(r"python -m ([\w.]+)", commands):
        assert find_spec(module) is not None, module


@every_document
def test_variables_that_are_named_exist(document: Path) -> None:
    named = set(re.findall(r"\bBA_[A-Z0-9_]*[A-Z0-9]\b", document.read_text("utf-8")))
    settings = set(re.findall(r"\bBA_\w+", read(".env.example") + read("docker-compose.yml")))
    unknown = named - STREAMS - settings - stack_variables()
    assert {name for name in unknown if not EXAMPLE.search(name)} == set()


def test_every_metric_is_described() -> None:
    described = column(section(read("docs/operating.md"), "## Metrics"), 1)
    assert sorted(described) == sorted(metric_series())


def test_every_field_of_an_alert_is_described() -> None:
    described = column(section(read("docs/producing.md"), "## An alert").split("\n### ")[0], 1)
    assert sorted(described) == sorted(Alert.model_fields)


def test_every_problem_is_described() -> None:
    described = column(section(read("docs/producing.md"), "### The answers"), 2)
    assert sorted(described) == sorted(Kind)


def test_every_reason_is_described() -> None:
    described = column(section(read("docs/delivery.md"), "## Dead letters"), 1)
    assert sorted(described) == sorted(Reason)
    assert set(column(section(read("docs/producing.md"), "## NATS"), 1)) <= set(Reason)


def test_the_worked_signature_is_right() -> None:
    text = section(read("docs/producing.md"), "### The signature")
    secret, timestamp, path, body, _, signature = column(text.split("A worked example", 1)[1], 2)
    assert signature == sign(secret.encode(), timestamp, "POST", path, body.encode())
    programs = [["bash", "-c", blocks(text, "sh")[0]], [sys.executable, "-c", blocks(text, "python")[0]]]
    for program in programs:
        assert subprocess.run(program, check=True, capture_output=True, text=True).stdout == f"{signature}\n"
