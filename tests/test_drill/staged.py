"""A report of a drill in virtual time: a simulated node whose path falls silent for a while."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.nodes import array_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.drill.findings import Condition, Finding
from nvmeof_exporter.drill.objectives import SCENARIOS, Objectives, judge, status_of
from nvmeof_exporter.drill.outcome import figures_of
from nvmeof_exporter.drill.phases import Course, Do, Observation, Phase, Plan
from nvmeof_exporter.drill.recorder import Recorder
from nvmeof_exporter.drill.report import About, Seen, report_of
from nvmeof_exporter.drill.target import Target
from nvmeof_exporter.drill.watch import Watch
from tests.fixtures.node_files import FaultyReader

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.drill.report import Report

__all__ = ["NQN", "A", "B", "staged_report"]

NQN = "nqn.2026-01.org.example:array1"
A, B = "tcp:10.0.0.2:4420", "tcp:10.0.1.2:4420"

_STEP = 0.05
_WORKERS = 4
_BLOCK = 1 << 20


class _Readers:
    """Workers whose requests are done when the node has done one, and wait while it waits."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begun = dict.fromkeys((f"read-{number}" for number in range(_WORKERS)), 0.0)
        for worker in self._begun:
            recorder.begin(worker, 0.0)

    def live(self, now: float, *, waits: bool) -> None:
        if waits:
            return
        for number, (worker, begun) in enumerate(self._begun.items()):
            end = now - number * 0.001
            self._recorder.end(worker, "read", begun, end, _BLOCK)
            self._recorder.begin(worker, end)
            self._begun[worker] = end


def staged_report(root: Path, name: str = "array 1", pause: float = 5.0) -> Report:
    """Black-hole a path of two for as long as the drill wants; its keep-alive time-out is 5 s."""
    node = array_node(load=Load())
    recorder = Recorder(0.0)
    with (
        closing(Tree(node, root)) as tree,
        closing(
            Watch(
                FaultyReader(), tree.sysfs, [(NQN, "1")], clock=lambda: (node.now, 1e9 + node.now)
            )
        ) as watch,
    ):
        course = Course(Plan(baseline=20, hold=15, settle=2, limit=300), 0.0)
        readers = _Readers(recorder)
        namespace = node.subsystems[0].namespaces[0]
        while course.phase is not Phase.OVER:
            node.advance(_STEP)
            tree.sync()
            seen = watch.look()
            readers.live(node.now, waits=node.longest_wait(namespace) > _STEP)
            do = course.observe(
                Observation(
                    node.now,
                    recorder.sample(node.now).done,
                    recorder.waits(node.now),
                    seen.usable,
                    seen.preferred,
                    seen.carrying,
                    seen.changes,
                )
            )
            if do is Do.TRIGGER:
                node.black_hole(node.connection(A))
            elif do is Do.RESTORE:
                node.heal(node.connection(A))
        findings = [Finding("step-00000007", "drill", Condition.WHOLE, step=7)]
        figures = figures_of(course, recorder, findings)
        judged = judge(SCENARIOS["failback"], Objectives(pause), figures, course.problems)
        about = About(
            name,
            "failback",
            1e9,
            Target("/scratch", ("nvme0n1",), ((NQN, "1"),), "ext4", 1 << 40),
            {"trigger": "nft add rule …", "restore": "nft flush …"},
            {"readers": _WORKERS},
            {NQN: {"subnet": 2, "target_address": 2}},
        )
        status = status_of(judged)
        return report_of(about, Seen(course, recorder, watch, findings), figures, judged, status)
