"""Comparing what the exporter serves with the kernel's files and with nvme-cli, value by value."""

from __future__ import annotations

import json
import math
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.truth import COUNTERS, FACTS, Truth

if TYPE_CHECKING:
    from tests.kernel.guest.exporter import Exporter, Sample, Scrape

__all__ = ["compare"]

_SETTLE_SECONDS = 10.0


def compare(
    exporter: Exporter, nqn: str, remembered: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Compare until all is equal, or for ten seconds: the exporter looks at intervals.

    Returns how many series were served and values compared, after how many
    seconds, and every mismatch of the last comparison as a sentence.
    """
    started = time.monotonic()
    while True:
        before = _read(nqn, remembered)
        scrape = exporter.scrape_after(time.time())
        listed = _listed(nqn)
        after = _read(nqn, remembered)
        steady = before.facts == after.facts
        mismatches = [
            *_facts(scrape, after),
            *_counters(scrape, before, after),
            *_nvme_cli(scrape, nqn, listed),
        ]
        seconds = time.monotonic() - started
        if (steady and not mismatches) or seconds > _SETTLE_SECONDS:
            return {
                "series": len(scrape.samples),
                "compared": len(after.facts) + len(after.counters) + 4 * len(listed),
                "mismatches": mismatches if steady else ["the kernel's own state kept changing"],
                "seconds": seconds,
            }


def _read(nqn: str, remembered: frozenset[str]) -> Truth:
    # A controller may vanish in the middle of a reading; the next one is without it.
    while True:
        with suppress(OSError):
            return Truth(nqn, remembered)
        time.sleep(0.1)


def _facts(scrape: Scrape, truth: Truth) -> list[str]:
    served = {
        sample: value
        for sample, value in scrape.samples.items()
        if sample[0] in FACTS and ("nqn", truth.nqn) in sample[1]
    }
    wrong = [
        f"{_name(sample)}: served {served.get(sample)}, the kernel says {value}"
        for sample, value in truth.facts.items()
        if served.get(sample) != value
    ]
    extra = served.keys() - truth.facts.keys()
    return wrong + [f"{_name(sample)}: served, but there is no such thing" for sample in extra]


def _counters(scrape: Scrape, before: Truth, after: Truth) -> list[str]:
    wrong = []
    for sample, high in after.counters.items():
        low = before.counters.get(sample, 0.0)
        value = scrape.samples.get(sample, math.nan)
        if not low - 1e-6 <= value <= high + 1e-6:
            wrong.append(f"{_name(sample)}: served {value}, the kernel says {low} to {high}")
    extra = {
        sample
        for sample in scrape.samples
        if sample[0] in COUNTERS and ("nqn", after.nqn) in sample[1]
    } - after.counters.keys()
    return wrong + [f"{_name(sample)}: served, but there is no such disk" for sample in extra]


def _listed(nqn: str) -> list[dict[str, str]]:
    """The paths of ``nqn`` as ``nvme list-subsys`` has them."""
    output = subprocess.run(
        ["nvme", "list-subsys", "--output-format=json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout
    answer = json.loads(output) if output.strip() else []
    hosts = answer if isinstance(answer, list) else [answer]
    return [
        path
        for host in hosts
        for subsystem in host.get("Subsystems", [])
        if subsystem.get("NQN") == nqn
        for path in subsystem.get("Paths", [])
    ]


def _nvme_cli(scrape: Scrape, nqn: str, listed: list[dict[str, str]]) -> list[str]:
    wrong = []
    for path in listed:
        found = list(scrape.matching("nvmeof_path_info", nqn=nqn, controller=path["Name"]))
        if len(found) != 1:
            wrong.append(f"nvme-cli lists {path['Name']}, the exporter {len(found)} of it")
            continue
        info, _ = found[0]
        address = dict(part.split("=", 1) for part in path["Address"].split(","))
        theirs = (path["Transport"], address["traddr"], address["trsvcid"], path["State"])
        state = [
            labels["state"]
            for labels, value in scrape.matching("nvmeof_path_state", nqn=nqn, path=info["path"])
            if value
        ]
        ours = (info["transport"], info["traddr"], info["trsvcid"], *state)
        if ours != theirs:
            wrong.append(f"nvme-cli says {theirs}, the exporter {ours}")
    # nvme-cli leaves out a controller that is not live now and then; the kernel's files,
    # which are compared as well, decide whether it is there.
    live = {
        labels["path"]
        for labels, value in scrape.matching("nvmeof_path_state", nqn=nqn, state="live")
        if value
    }
    must_be_listed = {
        labels["controller"]
        for labels, _ in scrape.matching("nvmeof_path_info", nqn=nqn)
        if labels["path"] in live
    }
    unlisted = must_be_listed - {path["Name"] for path in listed}
    return wrong + [f"the exporter has {name}, nvme-cli does not" for name in sorted(unlisted)]


def _name(sample: Sample) -> str:
    name, labels = sample
    return f"{name}{dict(sorted(labels))}"
