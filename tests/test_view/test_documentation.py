"""docs/api.md tells of every field there is, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from nvmeof_exporter.policy.report import Told
from nvmeof_exporter.view import model
from nvmeof_exporter.view.events import EventsView, EventView

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
STRUCTS = [
    *(getattr(model, name) for name in model.__all__ if name.endswith("View")),
    EventView,
    EventsView,
    Told,
]


def told() -> set[str]:
    """Every name in backticks."""
    return set(re.findall(r"`([a-z_]+)`", PAGE))


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_is_told(struct: type[msgspec.Struct]) -> None:
    assert {field.name for field in msgspec.structs.fields(struct)} <= told()


def test_no_other_field_is_told() -> None:
    fields = {field.name for struct in STRUCTS for field in msgspec.structs.fields(struct)}
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert named - fields == {"since", "limit"} - fields
