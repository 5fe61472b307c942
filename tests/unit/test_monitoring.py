import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.metrics import metric_series

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {path.parent.name for path in ROOT.glob("services/*/__main__.py")}
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/broad-announce.json").read_text("utf-8"))
EXISTING = set(chain.from_iterable(metric_series().values()))


def read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe").load(ROOT / path)
    return content


def test_every_service_is_scraped() -> None:
    jobs = read("deploy/prometheus/prometheus.yml")["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"] for job in jobs}
    names = {service.replace("_", "-") for service in SERVICES}
    assert targets == {name: [{"targets": [f"{name}:8080"]}] for name in names}


def test_rules_ask_for_series_that_exist() -> None:
    assert read("deploy/prometheus/prometheus.yml")["rule_files"] == ["alerts.yml"]
    rules = [rule for group in read("deploy/prometheus/alerts.yml")["groups"] for rule in group["rules"]]
    used = {name for rule in rules for name in re.findall(r"\bba_\w+", rule["expr"])}
    assert used
    assert used <= EXISTING
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in rules)


def test_panels_ask_for_series_that_exist() -> None:
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in re.findall(r"\bba_\w+", expression)}
    assert used
    assert used <= EXISTING


def test_grafana_finds_its_dashboard_and_its_data() -> None:
    (source,) = read("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    (provider,) = read("deploy/grafana/provisioning/dashboards/broad-announce.yml")["providers"]
    grafana = read("docker-compose.yml")["services"]["grafana"]
    asked = {target["datasource"]["uid"] for panel in DASHBOARD["panels"] for target in panel["targets"]}
    assert asked == {source["uid"]}
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/broad-announce.json"
