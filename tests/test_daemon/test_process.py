from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.running import eventually, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.thorough

NQN = "nqn.2026-01.org.example:gateways"
PATH = "tcp:10.0.210.201:4420"
STATE = f'nvmeof_path_state{{nqn="{NQN}",path="{PATH}",state="STATE"}}'
POLLS = "nvmeof_exporter_poll_duration_seconds_count"
UP = 'nvmeof_exporter_collector_success{collector="nvme"}'
FAST_RESCAN = "--poll.rescan-interval=100ms"


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def state(name: str) -> str:
    return STATE.replace("STATE", name)


def test_it_serves_the_state_and_follows_it(node: NodeFiles) -> None:
    with running(f"--path.sysfs={node.sysfs}", FAST_RESCAN) as exporter:
        assert exporter.samples()[state("live")] == 1
        node.advance()
        exporter.await_sample(state("connecting"), 1)
        exporter.await_line("path state changed")
        line = exporter.line("path state changed")
        for part in (NQN, PATH, "controller=nvme1", "old=live", "new=connecting", "old_seconds="):
            assert part in line
        node.advance()
        exporter.await_sample(state("missing"), 1)
        assert exporter.status("/-/healthy") == 200
        assert exporter.status("/elsewhere") == 404


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_when_asked_to(node: NodeFiles, number: signal.Signals) -> None:
    with running(f"--path.sysfs={node.sysfs}", "--poll.interval=60s") as exporter:
        asked = time.monotonic()
        assert exporter.stop(number) == 0
        assert time.monotonic() - asked < 5
        assert exporter.lines[-1].endswith("msg=stopping")


def test_a_good_configuration_is_taken_over_without_a_gap(node: NodeFiles, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("log: {level: info}\n")
    with running(f"--path.sysfs={node.sysfs}", f"--config.file={file}") as exporter:
        polls = exporter.samples()[POLLS]
        file.write_text(f"expected: [{{nqn: {NQN}, count: 7}}]\n")
        exporter.process.send_signal(signal.SIGHUP)
        exporter.await_line("configuration reloaded")
        exporter.await_sample(f'nvmeof_subsystem_paths_expected{{nqn="{NQN}"}}', 7)
        eventually(lambda: exporter.samples()[POLLS] > polls, "polling")


def test_a_bad_configuration_changes_nothing(node: NodeFiles, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"expected: [{{nqn: {NQN}, count: 7}}]\n")
    with running(f"--path.sysfs={node.sysfs}", f"--config.file={file}") as exporter:
        file.write_text("pol: {interval: 1s}\n")
        exporter.process.send_signal(signal.SIGHUP)
        exporter.await_line("not reloaded")
        line = exporter.line("not reloaded")
        assert "level=error" in line
        assert "config.yaml:1" in line
        assert "poll" in line
        assert exporter.samples()[f'nvmeof_subsystem_paths_expected{{nqn="{NQN}"}}'] == 7
        assert exporter.status("/-/healthy") == 200


def test_what_needs_a_restart_is_said(node: NodeFiles, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("")
    with running(f"--path.sysfs={node.sysfs}", f"--config.file={file}") as exporter:
        file.write_text("collector: {pcie: true}\n")
        exporter.process.send_signal(signal.SIGHUP)
        exporter.await_line("need a restart")
        assert "collector.pcie" in exporter.line("need a restart")


def test_without_an_nvme_class_it_serves_says_so_once_and_waits(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    with running(f"--path.sysfs={tmp_path}/sys", FAST_RESCAN) as exporter:
        polls = exporter.samples()[POLLS]
        eventually(lambda: exporter.samples()[POLLS] > polls + 5, "polling")
        found = exporter.samples()
        assert found[UP] == 1
        assert not [s for s in found if s.startswith("nvmeof_kernel_multipath_enabled")]
        assert len(exporter.said("no NVMe")) == 1
        # The driver is loaded later.
        NodeFiles.load("four-gateways", tmp_path / "sys")
        exporter.await_sample(state("live"), 1)
        assert exporter.samples()["nvmeof_kernel_multipath_enabled"] == 1


def test_a_scrape_touches_no_file(node: NodeFiles, tmp_path: Path) -> None:
    flags = ("--poll.interval=60s", "--poll.incident-interval=60s", "--poll.rescan-interval=1h")
    with running(f"--path.sysfs={node.sysfs}", *flags) as exporter:
        node.root.rename(tmp_path / "elsewhere")
        shutil.rmtree(tmp_path / "elsewhere")
        first = exporter.samples()
        assert first[state("live")] == 1
        assert first['nvmeof_exporter_read_errors_total{collector="nvme"}'] == 0
        assert exporter.samples()[POLLS] == first[POLLS]


def test_an_unreadable_file_is_told_once_and_only_once(node: NodeFiles) -> None:
    (node.place("nvme1") / "kato").write_text("never\n")
    with running(f"--path.sysfs={node.sysfs}", FAST_RESCAN) as exporter:
        polls = exporter.samples()[POLLS]
        eventually(lambda: exporter.samples()[POLLS] > polls + 10, "polling")
        assert "kato" in exporter.line("cannot be read")
        assert exporter.samples()['nvmeof_exporter_read_errors_total{collector="nvme"}'] >= 1


def test_an_unknown_state_is_told_once(node: NodeFiles) -> None:
    for device in ("nvme1", "nvme2"):
        node.apply(f"set {device} state=fencing")
    with running(f"--path.sysfs={node.sysfs}") as exporter:
        polls = exporter.samples()[POLLS]
        eventually(lambda: exporter.samples()[POLLS] > polls + 3, "polling")
        assert exporter.samples()[state("unknown")] == 1
        assert "fencing" in exporter.line("not known to this version")


def test_a_kernel_log_that_cannot_be_opened_is_a_failed_collector(
    node: NodeFiles, tmp_path: Path
) -> None:
    flags = (f"--path.kmsg={tmp_path}/absent", "--collector.kmsg")
    with running(f"--path.sysfs={node.sysfs}", *flags) as exporter:
        assert exporter.samples()['nvmeof_exporter_collector_success{collector="kmsg"}'] == 0
        assert "kmsg" in exporter.line("not available")
        assert exporter.samples()[UP] == 1


def test_ports_and_links_of_the_paths_are_served_from_their_files(
    node: NodeFiles, tmp_path: Path
) -> None:
    node.apply("set nvme1 address=traddr=10.0.210.201,trsvcid=4420,host_iface=eth0")
    files = {
        "class/net/eth0/carrier": "1",
        "class/net/eth0/carrier_changes": "3",
        "class/net/eth0/speed": "100000",
        "class/net/eth9/carrier": "1",
        "class/infiniband/rocep1s0/ports/1/state": "4: ACTIVE",
        "class/infiniband/rocep1s0/ports/1/gid_attrs/ndevs/0": "eth0",
        "class/infiniband/rocep1s0/ports/1/hw_counters/out_of_sequence": "7",
        "class/infiniband/rocep9s0/ports/1/state": "4: ACTIVE",
    }
    for name, content in files.items():
        file = node.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    label = f'nqn="{NQN}",path="{PATH}%eth0"'
    wanted = {
        f"nvmeof_path_link_up{{{label}}}": 1,
        'nvmeof_link_up{netdev="eth0"}': 1,
        'nvmeof_link_carrier_changes_total{netdev="eth0"}': 3,
        'nvmeof_link_speed_bytes_per_second{netdev="eth0"}': 12.5e9,
        'nvmeof_rdma_port_state{device="rocep1s0",port="1",state="active"}': 1,
        "nvmeof_rdma_port_statistic_total"
        '{device="rocep1s0",port="1",statistic="out_of_sequence"}': 7,
        'nvmeof_exporter_collector_success{collector="ports"}': 1,
        'nvmeof_exporter_collector_success{collector="rdma"}': 1,
        'nvmeof_exporter_collector_success{collector="links"}': 1,
    }
    tree = (f"--path.sysfs={node.sysfs}", "--poll.slow-interval=100ms")
    with running(*tree) as exporter:
        eventually(lambda: wanted.items() <= exporter.samples().items(), "ports and links")
        found = exporter.samples()
        assert not [s for s in found if '"eth9"' in s or '"rocep9s0"' in s or "lldp" in s]
        assert [s for s in found if s.startswith("nvmeof_path_info") and label in s] == [
            f'nvmeof_path_info{{cntlid="1",controller="nvme1",host_iface="eth0",host_traddr="",'
            f'netdev="eth0",{label},rdma_device="rocep1s0",rdma_port="1",src_addr="",'
            'traddr="10.0.210.201",transport="tcp",trsvcid="4420"}'
        ]
        (node.root / "class/net/eth0/carrier").write_text("0\n")
        exporter.await_sample(f"nvmeof_path_link_up{{{label}}}", 0)
    with running(
        *tree, "--collector.links=all", "--collector.rdma.device-exclude=rocep1.*"
    ) as all_:
        all_.await_sample('nvmeof_link_up{netdev="eth9"}', 1)
        all_.await_sample('nvmeof_rdma_port_state{device="rocep9s0",port="1",state="active"}', 1)
        assert not [s for s in all_.samples() if s.startswith("nvmeof_rdma") and "rocep1" in s]
    with running(*tree, "--no-collector.links", "--no-collector.rdma") as none:
        eventually(lambda: 'rdma_device="rocep1s0"' in str(none.samples()), "the path's port")
        assert not [s for s in none.samples() if "nvmeof_link" in s or "nvmeof_rdma" in s]
