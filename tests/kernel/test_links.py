"""What paths run over: values against iproute2 and ethtool, and link losses told early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.kernel.lab.boots import Boot, Result

GROUP = "links"

_LOSSES = ("an_idle_rdma_path_loses_its_link", "the_cable_of_a_tcp_path_is_pulled")

#: Until the next poll (--poll.interval by default) after the kernel has announced a change of
#: carrier, which it may put off for a second (net/core/link_watch.c).
_TOLD_SECONDS = 1.0 + 0.1
_PACKET_BYTES = 1024  # what soft RoCE puts into a packet over an Ethernet of 1500 octets

_MOMENTS = ("before", "during", "limits", "after")


def test_values_are_those_of_iproute2_and_ethtool(result: Result) -> None:
    for moment in result.found["compared"]:
        wrong = "\n".join(moment["mismatches"])
        assert not wrong, result.explain(wrong)
        assert moment["compared"] > 4, result.explain("hardly anything compared")


def test_soft_roce_paths_lead_to_their_interfaces_and_ports(boot: Boot) -> None:
    found = boot.result("two_soft_roce_paths").found
    assert found["paths"] == {
        "rdma:10.1.1.1:4420@10.1.1.1": ["r1", "rxe1", "1"],
        "rdma:10.1.2.1:4420@10.1.2.1": ["r2", "rxe2", "1"],
    }
    assert found["distinct"] == {
        "netdev": 2,
        "rdma_device": 2,
        "subnet": 2,
        "target_address": 2,
    }


def test_two_ports_of_one_card_are_one_nic(boot: Boot) -> None:
    found = boot.result("two_ports_of_one_card").found
    assert found["paths"] == {
        "rdma:10.1.3.1:4420@10.1.3.1": ["r3", "rxe3", "1"],
        "rdma:10.1.4.1:4420@10.1.4.1": ["r4", "rxe4", "1"],
    }
    assert found["distinct"] == {
        "netdev": 2,
        "nic": 1,
        "rdma_device": 2,
        "subnet": 2,
        "target_address": 2,
    }


def test_pauses_are_told_where_the_driver_counts_them(boot: Boot) -> None:
    assert boot.result("two_ports_of_one_card").found["pauses"] == [
        [netdev, direction, ""] for netdev in ("r3", "r4") for direction in ("rx", "tx")
    ]


def test_no_pauses_are_told_where_the_driver_counts_none(boot: Boot) -> None:
    found = boot.result("two_soft_roce_paths").found
    named = [name for names in found["driver_statistics"].values() for name in names]
    assert named
    assert not [name for name in named if "pause" in name or "flow_control" in name]
    assert found["pauses"] == []


@pytest.mark.parametrize("name", ["two_soft_roce_paths", "two_ports_of_one_card"])
def test_rdma_counters_grow_by_what_the_requests_moved(boot: Boot, name: str) -> None:
    result = boot.result(name)
    for device, traffic in result.found["traffic"].items():
        assert {"received_packets", "transmitted_packets"} <= traffic["before"].keys()
        for counter in traffic["before"]:
            before, during, limit, after = (traffic[moment][counter] for moment in _MOMENTS)
            assert before < during <= limit <= after, result.explain(f"{device} {counter}")
            unit = 1 if counter.endswith("_bytes") else _PACKET_BYTES
            # Both ends are on this port: what one sends the other receives.
            grown = (after - before) * unit
            assert grown >= traffic["moved"], result.explain(f"{device} {counter}")


@pytest.mark.parametrize("name", _LOSSES)
def test_a_lost_link_is_told_while_the_path_is_live(boot: Boot, name: str) -> None:
    result = boot.result(name)
    loss = result.found["loss"]
    first = _first(loss, link_up=0)
    assert first["state"] == "live", result.explain("told when the path was no longer live")
    assert first["poll"] < loss["kernel"], result.explain("told after the kernel noticed")
    assert first["poll"] - loss["done"] <= _TOLD_SECONDS, result.explain("told late")
    told = [seen["link_up"] for seen in loss["seen"] if seen["poll"] >= first["poll"]]
    assert set(told) == {0}, result.explain("taken back")


@pytest.mark.parametrize("name", _LOSSES)
def test_a_link_that_returns_is_told(boot: Boot, name: str) -> None:
    result = boot.result(name)
    back = result.found["back"]
    assert _first(back, link_up=1)["poll"] - back["done"] <= _TOLD_SECONDS, result.explain("late")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("an_rdma_path_loses_its_link_under_load", "rdma:10.1.1.1:4420@10.1.1.1"),
        ("the_cable_of_a_tcp_path_is_pulled", "tcp:10.0.1.2:4420"),
    ],
)
def test_a_lost_link_is_the_cause_of_the_failover(boot: Boot, name: str, path: str) -> None:
    assert boot.result(name).found["causes"] == {path: "link_down"}


def _first(record: dict[str, Any], *, link_up: int) -> dict[str, Any]:
    """Return what was seen when the link was first told as it is now."""
    return next(seen for seen in record["seen"] if seen["link_up"] == link_up)
