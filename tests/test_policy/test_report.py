from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.policy import RULES, Finding, Verdict
from nvmeof_exporter.policy.report import Report
from tests.test_policy.looks import NQN

KEPT = Finding("keep_alive", NQN, "tcp:10.0.0.2:4420", Verdict.KEPT, "5s", "at most 30s")
VIOLATED = Finding(
    "ctrl_loss_tmo",
    NQN,
    "tcp:10.0.0.2:4420",
    Verdict.VIOLATED,
    "1m",
    "at least 2m",
    ("now: echo 120 > nvme0", "for good: nvme connect"),
)
CRITICAL = Finding(
    "redundancy", NQN, "", Verdict.VIOLATED, "lost", "redundant", ("bring it back",), critical=True
)
UNKNOWN = Finding(
    "io_timeout", NQN, "tcp:10.0.0.2:4420", Verdict.UNKNOWN, "the kernel shows none", "at most 2m"
)
HOST = Finding("native_multipath", "", "", Verdict.KEPT, "Y", "Y")


def on(number: int, finding: Finding) -> Finding:
    """The same finding on another path."""
    how = tuple(step.replace("nvme0", f"nvme{number}") for step in finding.how)
    return Finding(
        finding.rule,
        NQN,
        f"tcp:10.0.{number}.2:4420",
        finding.verdict,
        finding.found,
        finding.wanted,
        how,
    )


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([HOST, KEPT], 0),
        ([HOST, KEPT, UNKNOWN], 0),
        ([KEPT, VIOLATED, UNKNOWN], 1),
        ([KEPT, VIOLATED, CRITICAL], 2),
        ([HOST, UNKNOWN], 3),
        ([HOST], 3),
        ([], 3),
    ],
)
def test_the_worst_verdict_is_the_status(findings: list[Finding], status: int) -> None:
    assert Report("vast", findings).status == status


def test_people_read_what_is_wrong_why_and_what_to_do_in_the_rules_order() -> None:
    report = Report("vast", [HOST, UNKNOWN, VIOLATED, KEPT, on(1, KEPT), on(1, VIOLATED), CRITICAL])
    assert report.text(colour=False, width=80) == (
        """\
host
  ok        native_multipath  Y

nqn.2026-01.org.example:array
  critical  redundancy        lost; wanted: redundant
            why  The worst namespace decides: at-risk, the next failure stops
                 its I/O; lost, it has stopped already. [__nvme_find_path and
                 nvme_path_is_disabled in drivers/nvme/host/multipath.c]
            how  bring it back
  ok        keep_alive        5s on 2 paths
  warning   ctrl_loss_tmo     1m on tcp:10.0.0.2:4420, tcp:10.0.1.2:4420;
                              wanted: at least 2m
            why  A path that is down for longer is deleted and does not come
                 back by itself; when it was the last one, waiting I/O fails.
                 [NVMF_DEF_CTRL_LOSS_TMO (600 s) in drivers/nvme/host/fabrics.h;
                 nvme-connect(1), --ctrl-loss-tmo]
            how  now: echo 120 > nvme0
            how  now: echo 120 > nvme1
            how  for good: nvme connect
  unknown   io_timeout        the kernel shows none on 1 path

policy vast: 1 critical, 1 warning, 1 unknown, 2 ok
"""
    )


def test_the_same_step_on_many_paths_is_told_of_a_few() -> None:
    text = Report("vast", [on(number, VIOLATED) for number in range(9)]).text(
        colour=False, width=100
    )
    assert [line.strip() for line in text.splitlines() if "how" in line] == [
        *(f"how  now: echo 120 > nvme{number}" for number in range(4)),
        "how  and likewise on 5 more paths",
        "how  for good: nvme connect",
    ]


def test_colours_mark_the_severity_and_shift_nothing() -> None:
    report = Report("vast", [KEPT, VIOLATED, CRITICAL, UNKNOWN])
    coloured = report.text(colour=True, width=100)
    for code, word in (
        ("32", "ok      "),
        ("33", "warning "),
        ("1;31", "critical"),
        ("36", "unknown "),
    ):
        painted = f"\033[{code}m{word}\033[0m"
        assert painted in coloured
        coloured = coloured.replace(painted, word)
    assert coloured == report.text(colour=False, width=100)


def test_machines_get_everything() -> None:
    assert json.loads(Report("vast", [HOST, VIOLATED]).json()) == {
        "policy": "vast",
        "status": "warning",
        "counts": {"ok": 1, "warning": 1, "critical": 0, "unknown": 0},
        "findings": [
            {
                "rule": "native_multipath",
                "nqn": "",
                "path": "",
                "verdict": "kept",
                "severity": "ok",
                "found": "Y",
                "wanted": "Y",
                "why": RULES["native_multipath"].why,
                "source": RULES["native_multipath"].source,
                "how": [],
            },
            {
                "rule": "ctrl_loss_tmo",
                "nqn": NQN,
                "path": "tcp:10.0.0.2:4420",
                "verdict": "violated",
                "severity": "warning",
                "found": "1m",
                "wanted": "at least 2m",
                "why": RULES["ctrl_loss_tmo"].why,
                "source": RULES["ctrl_loss_tmo"].source,
                "how": ["now: echo 120 > nvme0", "for good: nvme connect"],
            },
        ],
    }


def test_a_plugin_answers_in_one_line_with_figures_and_a_line_for_each_violation() -> None:
    assert Report("vast", [HOST, CRITICAL, VIOLATED]).plugin() == (
        "NVMEOF CRITICAL - 1 critical, 1 warning, 1 ok | ok=1 warning=1 critical=1 unknown=0\n"
        "critical: redundancy nqn.2026-01.org.example:array: lost, wanted redundant\n"
        "warning: ctrl_loss_tmo tcp:10.0.0.2:4420 of nqn.2026-01.org.example:array: 1m, "
        "wanted at least 2m\n"
    )


def test_with_nothing_to_judge_all_say_so() -> None:
    report = Report("vast", [HOST])
    assert report.plugin() == (
        "NVMEOF UNKNOWN - no NVMe over Fabrics subsystem is connected: there is nothing to judge\n"
    )
    assert report.text(colour=False, width=80).endswith(
        "policy vast: no NVMe over Fabrics subsystem is connected: there is nothing to judge\n"
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_name_from_the_other_end_neither_breaks_a_line_nor_reaches_the_terminal(
    name: str,
) -> None:
    finding = Finding("redundancy", name, name, Verdict.VIOLATED, name, "redundant", (name,))
    report = Report("vast", [finding])
    for text in (report.text(colour=False, width=100), report.plugin()):
        assert all(character.isprintable() for character in text.replace("\n", ""))
    first, second = report.plugin().splitlines()
    assert first.count("|") == 1
    assert "|" not in second
