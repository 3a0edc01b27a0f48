"""The configurations of the page on cost are ones that Prometheus takes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from nvmeof_exporter.exposition.metrics import METRICS
from tests.test_docs.markdown import code_blocks

PAGE = (Path(__file__).parents[2] / "docs/performance.md").read_text(encoding="utf-8")
CONFIGURATIONS = [block.text for block in code_blocks(PAGE) if block.language == "yaml"]


def dropped(configuration: str) -> list[str]:
    """The patterns of metric names that a configuration drops."""
    return [
        rule["regex"].partition(";")[0]
        for job in yaml.safe_load(configuration).get("scrape_configs", ())
        for rule in job.get("metric_relabel_configs", ())
    ]


def test_there_are_configurations() -> None:
    assert len(CONFIGURATIONS) == 4


@pytest.mark.parametrize(
    "pattern", [pattern for text in CONFIGURATIONS for pattern in dropped(text)]
)
def test_every_part_of_a_pattern_drops_a_metric_that_there_is(pattern: str) -> None:
    series = [
        f"{name}{suffix}"
        for name, metric in METRICS.items()
        for suffix in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
    ]
    parts = [pattern] if "(" in pattern else pattern.split("|")
    for part in parts:
        assert [name for name in series if re.fullmatch(part, name)]


@pytest.mark.prometheus
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_prometheus_takes_it(tmp_path: Path, configuration: str) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(configuration, encoding="utf-8")
    flags = ["--agent"] if configuration.startswith("# agent") else []
    subprocess.run(["promtool", "check", "config", *flags, str(file)], check=True)
