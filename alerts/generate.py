"""Write the rule files: ``python -m alerts.generate`` from the top of the project.

``--runbooks`` says where the runbooks are served, for links that can be followed from a
notification: ``python -m alerts.generate --runbooks https://wiki.example.org/nvmeof``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from alerts.exporter_rules import EXPORTER, POLICY
from alerts.fabric_rules import FABRIC
from alerts.fleet_rules import FLEET
from alerts.io_rules import FAILOVERS, IO
from alerts.objectives import OBJECTIVES
from alerts.path_rules import PATHS
from alerts.redundancy_rules import REDUNDANCY
from alerts.render import prometheus_rule, rule_file

__all__ = ["ALERTS", "RUNBOOKS", "files", "main"]

#: Where the runbooks are, in the project itself: nobody knows where users will serve them.
RUNBOOKS = "docs/runbooks"

#: Groups of the rule file that everybody needs; those of the other are for dashboards.
ALERTS = (OBJECTIVES, IO, REDUNDANCY, FAILOVERS, PATHS, FABRIC, POLICY, EXPORTER)

_GENERATED = """
Generated from alerts/*.py by `python -m alerts.generate`; do not edit, except to tune on a
system where it is installed.
"""

_HEAD = """
Alerting rules for nvmeof-exporter, and the thresholds they use. For Prometheus 2.42 and later.
docs/alerting.md explains each alert and the installation; docs/runbooks says what to do.

- `severity: critical` gets someone up, `warning` can wait for the morning.
- An alert is about one subsystem, namespace, path or device. Labels that the scrape
  configuration adds (cluster, rack) are kept.
- `last_over_time(...[5m])`: an exporter that restarts, or a value that could not be read once,
  ends no alert. Records that refer to themselves: while the exporter does not answer, its last word
  counts, for an hour; NVMeoFExporterDown tells of the silence. What ended while it answered has
  ended. Nothing waits for the order of groups: a record of another one is an evaluation old.
- A counter that is new counts with its whole value, since increase() does not see one that
  appears as 1; but only where the exporter answered before and did not tell it: a Prometheus
  that was down itself takes nothing old for new.
- Moments are compared with the exporter's own clock, nvmeof_exporter_last_poll_timestamp_seconds.
"""

_FLEET_HEAD = """
Recording rules for nvmeof-exporter: a fleet at a glance, per cluster (where there is such a
label) and job. No alert needs them. Each says how many series it costs.
"""


def files(runbooks: str = RUNBOOKS) -> dict[str, str]:
    """Return the text of each generated file by its path in ``alerts/``."""
    head = f"{_GENERATED.strip()}\n\n"
    base = runbooks.rstrip("/")
    return {
        "nvmeof.rules.yaml": rule_file(head + _HEAD.strip(), ALERTS, base),
        "nvmeof-fleet.rules.yaml": rule_file(head + _FLEET_HEAD.strip(), (FLEET,), base),
        "prometheus-operator/nvmeof-exporter.yaml": prometheus_rule(
            head + _HEAD.strip(), (*ALERTS, FLEET), base
        ),
    }


def main() -> None:
    """Write every file."""
    parser = argparse.ArgumentParser(prog="python -m alerts.generate", description="Write rules.")
    parser.add_argument("--runbooks", default=RUNBOOKS, metavar="URL", help="where runbooks are")
    arguments = parser.parse_args()
    for name, text in files(arguments.runbooks).items():
        target = Path(__file__).parent / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
