"""The examples for provisioning lead to dashboards that work as they are."""

from __future__ import annotations

from typing import Any

import yaml

from tests.dashboards.boards import DIRECTORY


def _example(name: str) -> dict[str, Any]:
    text = (DIRECTORY / "provisioning" / name).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    assert found["apiVersion"] == 1
    return found


def test_dashboards_are_provided_from_files() -> None:
    (provider,) = _example("dashboards.yaml")["providers"]
    assert (provider["type"], provider["folder"]) == ("file", "NVMe-oF")
    assert provider["options"]["path"].startswith("/")


def test_the_data_source_is_of_the_type_that_the_dashboards_look_for() -> None:
    (source,) = _example("datasource.yaml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == "15s"
