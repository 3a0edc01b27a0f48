"""What ``show`` tells of a node, whole: through a failover, and of odd nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.show.node import Layout, node_text
from nvmeof_exporter.show.table import Paint
from nvmeof_exporter.terminal import width
from tests.fixtures.viewing import SilentPath, served_node, view_of

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.view.model import NodeView

PLAIN = Layout(Paint(colours=False))
EXPORTER = "exporter 0.1.0 at http://127.0.0.1:10067, polled just now"

SCRATCH = """
nqn.2026-01.org.example:scratch
  ACME-Flash, round-robin, nvme-subsys2
  REDUNDANT: any one path may fail and I/O goes on
  PATH                   STATE  SINCE  ANA        I/O  INTERFACE  RDMA      CONTROLLER
  rdma:10.0.2.2:4420%h2  live   SINCE  optimized  yes  h2         mlx5_2/1  nvme2
  rdma:10.0.3.2:4420%h3  live   SINCE  optimized  yes  h3         mlx5_3/1  nvme3
  NAMESPACE  DEVICE   SIZE     USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme2n1  4.40 TB  2       0        0         2 paths
"""


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> dict[float, NodeView]:
    """Views of one failover, by time."""
    path = SilentPath(tmp_path_factory.mktemp("node"))
    return {at: view_of(path.run_until(at)) for at in (2.0, 6.0, 12.0, 25.0)}


def whole(array: str, since: str, policy: str) -> str:
    scratch = SCRATCH.replace("SINCE  opt", f"{since:5}  opt")
    return f"gpu1: {EXPORTER}\n{array}{scratch}\n{policy}\n"


def test_a_healthy_node(moments: dict[float, NodeView]) -> None:
    array = """
nqn.2026-01.org.example:array1
  ACME-Flash, numa, nvme-subsys0
  REDUNDANT: any one path may fail and I/O goes on
  PATH                  STATE  SINCE  ANA        I/O  INTERFACE  RDMA      CONTROLLER
  tcp:10.0.0.2:4420%h0  live   >1s    optimized  yes  h0         mlx5_0/1  nvme0
  tcp:10.0.1.2:4420%h1  live   >1s    optimized  no   h1         mlx5_1/1  nvme1
  NAMESPACE  DEVICE   SIZE     USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n1  2.20 TB  2       0        0         tcp:10.0.0.2:4420%h0
  2          nvme0n2  8.80 TB  2       0        0         tcp:10.0.0.2:4420%h0
"""
    text = node_text(moments[2.0], EXPORTER, PLAIN)
    assert text == whole(array, ">1s", "policy conservative: 32 ok")


def test_a_path_that_is_silent_and_says_live(moments: dict[float, NodeView]) -> None:
    array = """
nqn.2026-01.org.example:array1
  ACME-Flash, numa, nvme-subsys0
  REDUNDANT: any one path may fail and I/O goes on
  I/O of namespace 1, 2 stands still, for 2.85 s by now
  a failover is going on
  PATH                  STATE  SINCE  ANA        I/O             INTERFACE  RDMA      CONTROLLER
  tcp:10.0.0.2:4420%h0  live   >5s    optimized  stalled 2.85 s  h0         mlx5_0/1  nvme0
  tcp:10.0.1.2:4420%h1  live   >5s    optimized  no              h1         mlx5_1/1  nvme1
  NAMESPACE  DEVICE   SIZE     USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n1  2.20 TB  2       0        0         stalled 2.85 s
  2          nvme0n2  8.80 TB  2       0        0         stalled 2.85 s
"""
    text = node_text(moments[6.0], EXPORTER, PLAIN)
    assert text == whole(array, ">5s", "policy conservative: 32 ok")


def test_a_path_that_was_given_up(moments: dict[float, NodeView]) -> None:
    array = """
nqn.2026-01.org.example:array1
  ACME-Flash, numa, nvme-subsys0
  AT-RISK: one path is left (tcp:10.0.1.2:4420%h1), and I/O stops when it fails; not usable: \
tcp:10.0.0.2:4420%h0 is connecting
  PATH                  STATE       SINCE  ANA        I/O  INTERFACE  RDMA      CONTROLLER
  tcp:10.0.0.2:4420%h0  connecting  1s     optimized  no   h0         mlx5_0/1  nvme0
  tcp:10.0.1.2:4420%h1  live        >11s   optimized  yes  h1         mlx5_1/1  nvme1
  NAMESPACE  DEVICE   SIZE     USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n1  2.20 TB  1       0        1         tcp:10.0.1.2:4420%h1
  2          nvme0n2  8.80 TB  1       0        1         tcp:10.0.1.2:4420%h1
  last failover 1s ago off tcp:10.0.0.2:4420%h0 (unknown): 7.02 s
    detection 7.02 s, reroute 0 ms
"""
    policy = "policy conservative: 1 critical, 1 unknown, 29 ok; nvmeof-exporter check tells which"
    assert node_text(moments[12.0], EXPORTER, PLAIN) == whole(array, ">11s", policy)


def test_a_path_that_has_its_io_back(moments: dict[float, NodeView]) -> None:
    array = """
nqn.2026-01.org.example:array1
  ACME-Flash, numa, nvme-subsys0
  REDUNDANT: any one path may fail and I/O goes on
  PATH                  STATE  SINCE  ANA        I/O  INTERFACE  RDMA      CONTROLLER
  tcp:10.0.0.2:4420%h0  live   7s     optimized  yes  h0         mlx5_0/1  nvme0
  tcp:10.0.1.2:4420%h1  live   >24s   optimized  no   h1         mlx5_1/1  nvme1
  NAMESPACE  DEVICE   SIZE     USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n1  2.20 TB  2       0        0         tcp:10.0.0.2:4420%h0
  2          nvme0n2  8.80 TB  2       0        0         tcp:10.0.0.2:4420%h0
  last failover 14s ago off tcp:10.0.0.2:4420%h0 (unknown): 7.02 s
    detection 7.02 s, reroute 0 ms, reconnect 7.10 s, failback 0 ms
"""
    text = node_text(moments[25.0], EXPORTER, PLAIN)
    assert text == whole(array, ">24s", "policy conservative: 32 ok")


def test_wide_holds_settings_and_counts(moments: dict[float, NodeView]) -> None:
    lines = node_text(moments[25.0], EXPORTER, PLAIN._replace(wide=True, columns=40)).splitlines()
    assert lines[3] == "  ACME-Flash, d3aea8ceca1d2d415893, 7.3.4+de, numa, nvme-subsys0"
    assert lines[5:7] == [
        "  PATH                  STATE  SINCE  ANA        I/O  INTERFACE  RDMA      CONTROLLER"
        "  LINK  NIC         KEEP-ALIVE  CTRL-LOSS  RECONNECT  FAST-FAIL  IO-TIMEOUT"
        "  QUEUES  TRANSITIONS  ATTEMPTS",
        "  tcp:10.0.0.2:4420%h0  live   7s     optimized  yes  h0         mlx5_0/1  nvme0"
        "       up    0000:17:00  5s          180s       2s         off        30s"
        "         3       2            2",
    ]
    assert re.fullmatch(
        r"  1          nvme0n1  2\.20 TB  2       0        0         tcp:10\.0\.0\.2:4420%h0"
        r"  0s        \d          0         0       uuid\.[0-9a-f-]{36}",
        lines[9],
    )


class TestOnANarrowTerminal:
    @pytest.mark.parametrize("columns", [120, 80, 60, 40, 26])
    def test_every_line_fits(self, moments: dict[float, NodeView], columns: int) -> None:
        for view in moments.values():
            text = node_text(view, EXPORTER, PLAIN._replace(columns=columns))
            assert max(map(width, text.splitlines())) <= columns

    def test_columns_go_and_long_names_lose_their_middle(
        self, moments: dict[float, NodeView]
    ) -> None:
        text = node_text(moments[12.0], EXPORTER, PLAIN._replace(columns=34))
        assert text.splitlines()[4:21] == [
            "nqn.2026-01.org.example:array1",
            "  ACME-Flash, numa, nvme-subsys0",
            "  AT-RISK: one path is left",
            "    (tcp:10.0.1.2:4420%h1), and",
            "    I/O stops when it fails; not",
            "    usable: tcp:10.0.0.2:4420%h0",
            "    is connecting",
            "  PATH                  STATE",
            "  tcp:10.0.0.2:4420%h0  connecting",
            "  tcp:10.0.1.2:4420%h1  live",
            "  NAMESPACE  I/O OVER",
            "  1          tcp:10.0.1.2:4420%h1",
            "  2          tcp:10.0.1.2:4420%h1",
            "  last failover 1s ago off",
            "    tcp:10.0.0.2:4420%h0",
            "    (unknown): 7.02 s",
            "    detection 7.02 s, reroute 0 ms",
        ]


class TestColours:
    @staticmethod
    def coloured(view: NodeView) -> str:
        return node_text(view, EXPORTER, Layout(Paint(colours=True), 100))

    def test_say_what_the_words_say(self, moments: dict[float, NodeView]) -> None:
        text = self.coloured(moments[12.0])
        assert "  \033[33mAT-RISK: one path is left" in text
        assert "\033[33mconnecting\033[0m" in text
        assert "\033[32mlive\033[0m" in text
        assert "\033[1;31mI/O of namespace 1, 2 stands still" in self.coloured(moments[6.0])

    def test_change_nothing_else(self, moments: dict[float, NodeView]) -> None:
        for view in moments.values():
            plain = node_text(view, EXPORTER, PLAIN._replace(columns=100))
            assert re.sub(r"\033\[[0-9;]*m", "", self.coloured(view)) == plain


@pytest.mark.parametrize(
    ("name", "steps", "expected"),
    [
        (
            "four-gateways",
            2,
            """\
gpu1: ORIGIN

nqn.2026-01.org.example:gateways
  numa, nvme-subsys3
  LOST: no path can carry I/O of namespace 1, and it waits for one: tcp:10.0.210.202:4420 is \
inaccessible (ANA), tcp:10.0.210.203:4420 is inaccessible (ANA), tcp:10.0.210.204:4420 is \
inaccessible (ANA), tcp:10.0.210.201:4420 is missing
  PATH                   STATE    SINCE    ANA                          I/O  CONTROLLER
  tcp:10.0.210.201:4420  missing  0s                                    no
  tcp:10.0.210.202:4420  live     >14m40s  1 inaccessible, 1 optimized  no   nvme2
  tcp:10.0.210.203:4420  live     >14m40s  inaccessible                 no   nvme3
  tcp:10.0.210.204:4420  live     >14m40s  inaccessible                 no   nvme4
  NAMESPACE  DEVICE   USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme3n1  0       0        3         none seen
  2          nvme3n2  1       2        0         none seen

policy conservative: 1 critical, 21 ok; nvmeof-exporter check tells which
""",
        ),
        (
            "odd-texts",
            0,
            """\
gpu1: ORIGIN

nqn.2026-01.org.example:odd"\\nline\\
  Caf\ufffd "X", shortest-queue, nvme-subsys0
  redundancy cannot be told: too little could be read
  PATH               STATE             SINCE  ANA        I/O  CONTROLLER
  tcp:10.0.0.2:4420  unknown           >0s    unknown    no   nvme0
  tcp:10.0.1.2:4420  unknown           >0s    unknown    no   nvme1
  tcp:10.0.2.2:4420  deleting (no IO)  >0s               no   nvme2
  tcp:10.0.3.2:4420  ?                 >0s    optimized  ?    nvme3
  NAMESPACE  DEVICE   USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n1  ?       ?        ?         ?

policy conservative: 2 warning, 18 unknown, 8 ok; nvmeof-exporter check tells which
""",
        ),
        (
            "multipath-off",
            0,
            """\
gpu1: ORIGIN
native multipath is off (nvme_core.multipath=N)

nqn.2026-01.org.example:plain
  numa, nvme-subsys0
  redundancy cannot be told: native multipath is off
  PATH                STATE       SINCE  I/O  CONTROLLER
  tcp:10.1.0.10:8420  live        >0s    no   nvme0
  tcp:10.1.0.11:8420  connecting  >0s    no   nvme1
  NAMESPACE  DEVICE           SIZE     USABLE  STANDBY  UNUSABLE  I/O OVER
  1          nvme0n1 nvme1n1  1.05 MB  1       0        1         none seen

policy conservative: 1 warning, 3 unknown, 13 ok; nvmeof-exporter check tells which
""",
        ),
    ],
)
def test_an_odd_node(tmp_path: Path, name: str, steps: int, expected: str) -> None:
    served, node = served_node(name, tmp_path)
    for _ in range(steps):
        assert node.advance()
        served.poll(node.time)
    assert node_text(view_of(served), "ORIGIN", PLAIN) == expected


def test_an_exporter_that_is_not_well_is_said(tmp_path: Path) -> None:
    served, _ = served_node("only-path-lost", tmp_path)
    view = view_of(served, later=42, health=lambda: "polling has stopped: 42.0 s old")
    assert node_text(view, "ORIGIN", PLAIN).splitlines()[1] == (
        "the exporter is not healthy: polling has stopped: 42.0 s old"
    )
