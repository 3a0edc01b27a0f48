"""Write the dashboards: ``python -m dashboards.generate`` from the top of the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.source.drill import drill
from dashboards.source.fabric import fabric
from dashboards.source.fleet import fleet
from dashboards.source.node import node

__all__ = ["files", "main"]

_HERE = Path(__file__).parent

_BOARDS = {
    "drill": drill,
    "fleet": fleet,
    "node": node,
    "rdma-and-links": fabric,
}


def files() -> dict[str, str]:
    """Return the text of each dashboard by its path in ``dashboards/``."""
    found = {}
    for name, make in _BOARDS.items():
        model = json.loads(json.dumps(make().build(), cls=JSONEncoder))
        _finish(model)
        found[f"{name}.json"] = json.dumps(model, indent=2, ensure_ascii=False) + "\n"
    return found


def _finish(model: dict[str, Any]) -> None:
    """Number the panels, and take out what the SDK writes although Grafana knows it no more."""
    for number, panel in enumerate(model["panels"], 1):
        panel["id"] = number
        panel.get("options", {}).pop("footer", None)
    for variable in model["templating"]["list"]:
        for name in ("auto", "auto_count", "auto_min"):
            del variable[name]


def main() -> None:
    """Write every file."""
    for name, text in files().items():
        (_HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
