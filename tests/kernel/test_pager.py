"""One real path loss becomes one page, and the page is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kernel.guest.pager import INTERVAL_SECONDS

if TYPE_CHECKING:
    from tests.kernel.lab.boots import Boot

GROUP = "pager"
KERNELS = ("trixie-backports",)

pytestmark = pytest.mark.prometheus

_SCENARIO = "a_lost_path_becomes_a_page"

_FOR, _KEPT = 60.0, 120.0  # `for` and `keep_firing_for` of NVMeoFRedundancyLost
_GROUP_WAIT, _GROUP_INTERVAL = 10.0, 60.0  # of the example's route to the pager

#: A keep-alive of 5 s tells of a silent path after 5 to 10 s, and takes 5 s to fail.
_DETECTION = 15.0

#: Alertmanager sends when its timers say so; Prometheus repeats what it has sent.
_SLACK = 5.0


def test_a_lost_path_pages_once_and_is_resolved(boot: Boot) -> None:
    found = boot.result(_SCENARIO).found
    told = [_essence(notification) for notification in found["notifications"]]
    page = {
        "receiver": "storage-pager",
        "group": {"alertname": "NVMeoFRedundancyLost", "cluster": "lab", "job": "nvmeof"},
        "alerts": [
            {
                "alertname": "NVMeoFRedundancyLost",
                "severity": "critical",
                "nqn": found["nqn"],
                "cluster": "lab",
                "instance": "node",
                "job": "nvmeof",
            }
        ],
    }
    assert told == [{**page, "status": "firing"}, {**page, "status": "resolved"}]
    assert found["left"] == []


def test_the_page_comes_when_scrape_evaluation_and_grouping_have_added_up(boot: Boot) -> None:
    found = boot.result(_SCENARIO).found
    paged = found["notifications"][0]["time"]
    earliest = _FOR + _GROUP_WAIT
    # Scrape, evaluation, `for` (which ends with an evaluation), grouping.
    latest = _DETECTION + 3 * INTERVAL_SECONDS + earliest + _SLACK
    assert earliest <= paged - found["lost"] <= latest


def test_the_page_is_taken_back_when_the_path_is_sure_to_be_back(boot: Boot) -> None:
    found = boot.result(_SCENARIO).found
    paged, resolved = (notification["time"] for notification in found["notifications"])
    earliest = found["back"] + _KEPT
    # Scrape, evaluation, and the group's next message.
    assert earliest <= resolved <= earliest + 2 * INTERVAL_SECONDS + _GROUP_INTERVAL + _SLACK
    beat = (resolved - paged) % _GROUP_INTERVAL
    assert min(beat, _GROUP_INTERVAL - beat) <= _SLACK


def test_the_page_names_the_path_and_its_interface(boot: Boot) -> None:
    (alert,) = boot.result(_SCENARIO).found["notifications"][0]["alerts"]
    description = alert["annotations"]["description"]
    assert "tcp:10.0.1.2:4420" in description
    assert "over h1) is connecting." in description


def _essence(notification: dict[str, Any]) -> dict[str, Any]:
    return {
        "receiver": notification["receiver"],
        "status": notification["status"],
        "group": notification["group"],
        "alerts": [alert["labels"] for alert in notification["alerts"]],
    }
