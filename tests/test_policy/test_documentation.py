from __future__ import annotations

import re
from pathlib import Path

import pytest

from nvmeof_exporter.policy import PRESETS, RULES
from nvmeof_exporter.policy.findings import wanted_text
from nvmeof_exporter.policy.model import limits_of

_TEXT = Path(__file__).parents[2].joinpath("docs/policy.md").read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """The cells of the table that begins with that header."""
    body = _TEXT.partition(header)[2].partition("\n\n")[0]
    rows = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize(("column", "preset"), [(1, "conservative"), (2, "gpu-training")])
def test_the_table_of_presets_is_what_they_want(column: int, preset: str) -> None:
    told = {row[0].strip("`"): row[column] for row in table("| rule | conservative |")}
    wanted = {}
    for rule, limits in limits_of(PRESETS[preset]).items():
        if not limits.enabled:
            wanted[rule] = "off"
        elif limits.one_of:
            wanted[rule] = ", ".join(limits.one_of)
        else:
            text = wanted_text(rule, limits)
            wanted[rule] = "on" if text == "anything" else text
    assert told == wanted


def test_every_rule_and_every_preset_is_explained() -> None:
    rules = [re.sub(r"[` ]|\(now\)", "", row[0]) for row in table("| rule | asks |")]
    assert rules == list(RULES)
    assert [row[0] for row in table("| rule | asks |") if "(now)" in row[0]] == [
        f"`{rule.id}` (now)" for rule in RULES.values() if not rule.lasting
    ]
    vendors = [row[0].strip("`") for row in table("| preset | model |")]
    assert ["conservative", "gpu-training", *vendors] == list(PRESETS)
