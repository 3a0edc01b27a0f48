"""Every served value against the kernel's own files and nvme-cli, on stock kernels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.kernel.lab.boots import Boot, Result

GROUP = "state"


def test_the_exporter_serves_what_the_kernel_shows(result: Result) -> None:
    for moment, compared in result.found.items():
        assert compared["compared"] > 40, result.explain(f"{moment}: hardly anything compared")
        wrong = "\n".join(compared["mismatches"])
        assert not wrong, result.explain(f"{moment}:\n{wrong}")


def test_the_comparison_is_counted(boot: Boot) -> None:
    moments = [moment for result in boot.results() for moment in result.found.values()]
    summary = {
        "moments": len(moments),
        "series_served": max(moment["series"] for moment in moments),
        "values_compared": sum(moment["compared"] for moment in moments),
        "mismatches": sum(len(moment["mismatches"]) for moment in moments),
    }
    (boot.output / "state.json").write_text(json.dumps(summary, indent=1) + "\n")
    assert summary["values_compared"] > 1000
    assert summary["mismatches"] == 0
