"""The metrics that our code declares."""

import importlib
from pathlib import Path

from prometheus_client import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def metric_series() -> dict[str, set[str]]:
    """Return every metric of ours by the name that it is declared with, and the series that it shows."""
    for path in [*ROOT.glob("libs/announce/**/metrics.py"), *ROOT.glob("services/*/metrics.py")]:
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts[1:]))
    families = [family for family in REGISTRY.collect() if family.name.startswith("ba_")]
    return {
        family.name + ("_total" if family.type == "counter" else ""): {
            family.name + suffix for suffix in SUFFIXES[family.type]
        }
        for family in families
    }
