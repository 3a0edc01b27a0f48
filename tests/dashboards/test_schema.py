"""The files hold what Grafana's own types allow, and nothing else."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboards.boards import BOARDS, load

if TYPE_CHECKING:
    from pathlib import Path

jsonschema = pytest.importorskip("jsonschema")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

#: What the page's types call a panel of each kind.
TYPES = {
    "bargauge": "BarGaugePanel",
    "row": "Row",
    "stat": "StatPanel",
    "state-timeline": "StateTimelinePanel",
    "table": "TablePanel",
    "timeseries": "TimeSeriesPanel",
}


def _errors(schema: Path, name: str, instance: dict[str, Any]) -> list[str]:
    definitions = json.loads(schema.read_text())["definitions"]
    validator = jsonschema.Draft7Validator(
        {"$ref": f"#/definitions/{name}", "definitions": definitions}
    )
    return [
        f"{instance.get('title')}: {error.json_path}: {error.message}"
        for error in validator.iter_errors(instance)
    ]


@pytest.mark.parametrize("board", BOARDS)
def test_a_dashboard_keeps_to_the_schema(board: str, schema: Path) -> None:
    model = dict(load(board))
    panels = model.pop("panels")
    errors = _errors(schema, "Frame", model)
    for panel in panels:
        errors += _errors(schema, TYPES[panel["type"]], panel)
    assert errors == []


def test_the_schema_knows_what_is_wrong(schema: Path) -> None:
    panel = next(one for one in load("drill")["panels"] if one["type"] == "stat")
    wrong = {**panel, "options": {**panel["options"], "graphMode": "sideways", "colour": "red"}}
    assert len(_errors(schema, "StatPanel", wrong)) >= 1


def test_the_page_agrees_with_the_types_of_the_libraries(packages: Path) -> None:
    command = [str(packages / ".bin" / "tsc"), "--project", "."]
    done = subprocess.run(command, cwd=packages.parent, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0
