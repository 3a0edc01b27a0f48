"""What field reports were about, rebuilt small: what is served, and what must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.node_files import NODES, FaultyReader, NodeFiles
from tests.fixtures.serving import Served, one_valued, samples

if TYPE_CHECKING:
    from pathlib import Path

ALL = sorted(path.stem for path in NODES.glob("*.node"))


class Case:
    """A node that is looked at once per step, ten times a second where ``dense``."""

    def __init__(self, name: str, tmp_path: Path, *, pcie: bool = False) -> None:
        self.node = NodeFiles.load(name, tmp_path / "sys")
        self.served = Served(self.node.sysfs, FaultyReader(self.node.errors), pcie=pcie)
        self.served.poll()
        self.now = self.served.samples()

    def step(self) -> bool:
        """Let the next step happen and look; False at the end."""
        if not self.node.advance():
            return False
        self.served.poll(self.node.time)
        self.now = self.served.samples()
        return True

    def levels(self, nqn: str) -> list[str]:
        return one_valued(self.now, "nvmeof_subsystem_redundancy", "level", nqn=nqn)

    def condition(self, nqn: str, nsid: str, condition: str) -> float:
        return self.now[
            f'nvmeof_namespace_paths{{condition="{condition}",nqn="{nqn}",nsid="{nsid}"}}'
        ]

    def subsystem(self, name: str, nqn: str) -> float:
        return self.now[f'nvmeof_subsystem_{name}{{nqn="{nqn}"}}']

    def state(self, nqn: str, path: str) -> list[str]:
        return one_valued(self.now, "nvmeof_path_state", "state", nqn=nqn, path=path)

    def starting(self, name: str, *labels: str) -> dict[str, float]:
        """Series of that name (or the beginning of it) with all of the label texts."""
        return {
            series: value
            for series, value in self.now.items()
            if series.startswith(name) and all(label in series for label in labels)
        }


@pytest.mark.parametrize("pcie", [False, True], ids=["fabrics", "all"])
@pytest.mark.parametrize("name", ALL)
def test_every_step_of_every_node_is_valid_exposition(
    tmp_path: Path, name: str, pcie: bool
) -> None:
    case = Case(name, tmp_path, pcie=pcie)
    while True:
        text = case.served.text()
        families = list(text_string_to_metric_families(text))
        assert len({family.name for family in families}) == len(families)
        assert sum(len(family.samples) for family in families) == len(samples(text))
        if not case.step():
            break


def test_a_subsystem_without_controllers_is_lost_and_its_neighbour_is_not(tmp_path: Path) -> None:
    case = Case("subsystem-without-controllers", tmp_path)
    empty, well = "nqn.2026-01.org.example:volume-1", "nqn.2026-01.org.example:volume-2"
    assert case.starting("nvmeof_subsystem_info", empty)
    assert (case.subsystem("paths", empty), case.subsystem("paths_usable", empty)) == (0, 0)
    assert case.levels(empty) == ["lost"]
    assert not case.starting("nvmeof_path_state", empty)
    assert (case.subsystem("paths", well), case.subsystem("paths_usable", well)) == (1, 1)
    assert case.levels(well) == ["at-risk"]


def test_fibre_channel_paths_are_told_apart_and_discovery_is_none(tmp_path: Path) -> None:
    case = Case("fibre-channel", tmp_path)
    nqn = "nqn.2026-01.org.example:sn.1:data"
    assert not case.starting("nvmeof", "sn.1:discovery")
    assert case.now["nvmeof_discovery_controllers"] == 1
    assert case.levels(nqn) == ["redundant"]
    assert case.condition(nqn, "1", "optimized") == 2
    assert case.condition(nqn, "1", "non-optimized") == 1
    (info,) = case.starting("nvmeof_path_info", 'controller="nvme3"')
    assert 'path="fc:nn-0x20aa:pn-0x20b1@nn-0x10a0:pn-0x10b0"' in info
    assert 'trsvcid=""' in info


def test_a_path_keeps_its_label_while_it_connects(tmp_path: Path) -> None:
    case = Case("scoped-ipv6", tmp_path)
    nqn = "nqn.2026-01.org.example:eight"
    path = "tcp:[fe80::12:3456%enp2s0]:4420%enp2s0"
    found = []
    while True:
        found.append((case.state(nqn, path), case.levels(nqn)))
        if not case.step():
            break
    assert found == [
        (["live"], ["redundant"]),
        (["connecting"], ["at-risk"]),
        (["live"], ["redundant"]),
    ]
    ana = one_valued(case.now, "nvmeof_namespace_path_ana_state", "ana_state", path=path)
    assert ana == ["optimized"]


def test_a_path_that_connects_is_unusable_though_its_ana_state_is_optimized(
    tmp_path: Path,
) -> None:
    case = Case("scoped-ipv6", tmp_path)
    case.step()
    path = 'path="tcp:[fe80::12:3456%enp2s0]:4420%enp2s0"'
    assert list(case.starting("nvmeof_namespace_path_usable", path).values()) == [0]
    ana = case.starting("nvmeof_namespace_path_ana_state", path, 'ana_state="optimized"')
    assert list(ana.values()) == [1]


def test_the_only_path_lost_is_a_pause_and_no_failover(tmp_path: Path) -> None:
    case = Case("only-path-lost", tmp_path)
    nqn = "nqn.2026-01.org.example:single"
    levels = [case.levels(nqn)[0]]
    stalled = [0.0]
    while case.step():
        levels.append(case.levels(nqn)[0])
        stalled.extend(case.starting("nvmeof_namespace_io_stalled_seconds").values())
    assert levels == ["at-risk", "at-risk", "lost", "lost", "at-risk", "at-risk"]
    # Neither the false completions at 10 s nor the empty queues end the pause.
    assert stalled[2] > 0
    assert stalled[2] < stalled[3] < stalled[4]
    assert stalled[5] == 0
    label = f'{{nqn="{nqn}"}}'
    assert case.now[f"nvmeof_failover_duration_seconds_count{label}"] == 0
    assert not case.starting("nvmeof_failovers_total")
    assert case.now[f"nvmeof_namespace_io_stall_duration_seconds_count{label}"] == 1
    assert 36 <= case.now[f"nvmeof_namespace_io_stall_duration_seconds_sum{label}"] <= 51
    assert case.now[f"nvmeof_path_outage_seconds_sum{label}"] == 36


def test_an_old_kernel_has_no_settings_but_counts_by_its_paths(tmp_path: Path) -> None:
    case = Case("old-kernel", tmp_path)
    nqn = "nqn.2026-01.org.example:old"
    reads = f'nvmeof_namespace_reads_completed_total{{nqn="{nqn}",nsid="1"}}'
    assert case.now[reads] == 4000
    for name in ("keep_alive_timeout", "ctrl_loss_timeout", "reconnect_delay", "fast_io_fail"):
        assert not case.starting(f"nvmeof_path_{name}")
    while case.step():
        assert case.levels(nqn) == ["lost"]
        assert case.now[reads] == 4000
    assert case.now['nvmeof_exporter_read_errors_total{collector="nvme"}'] == 0


def test_one_optimized_gateway_and_three_standbys_are_redundant(tmp_path: Path) -> None:
    case = Case("four-gateways", tmp_path)
    nqn = "nqn.2026-01.org.example:gateways"
    assert case.levels(nqn) == ["redundant"]
    for nsid in ("1", "2"):
        assert case.condition(nqn, nsid, "optimized") == 1
        assert case.condition(nqn, nsid, "standby") == 3


def test_live_controllers_hide_no_namespace_without_a_usable_path(tmp_path: Path) -> None:
    case = Case("four-gateways", tmp_path)
    nqn = "nqn.2026-01.org.example:gateways"
    case.step()
    assert case.levels(nqn) == ["lost"]
    assert case.condition(nqn, "1", "unusable") == 4
    assert case.condition(nqn, "2", "optimized") == 1
    assert case.condition(nqn, "2", "standby") == 2
    case.step()
    assert case.levels(nqn) == ["lost"]
    assert case.condition(nqn, "1", "unusable") == 3
    assert case.condition(nqn, "2", "standby") == 2
    assert case.subsystem("paths", nqn) == 3
    assert case.state(nqn, "tcp:10.0.210.201:4420") == ["missing"]


def test_without_native_multipath_states_are_told_but_no_redundancy(tmp_path: Path) -> None:
    case = Case("multipath-off", tmp_path)
    nqn = "nqn.2026-01.org.example:plain"
    assert case.now["nvmeof_kernel_multipath_enabled"] == 0
    assert not case.starting("nvmeof_subsystem_redundancy")
    assert case.state(nqn, "tcp:10.1.0.10:8420") == ["live"]
    assert case.state(nqn, "tcp:10.1.0.11:8420") == ["connecting"]
    devices = {
        disk for disk in ("nvme0n1", "nvme1n1") if case.starting("nvmeof_namespace_info", disk)
    }
    assert devices == {"nvme0n1", "nvme1n1"}


def test_leaked_in_flight_requests_are_no_pause(tmp_path: Path) -> None:
    case = Case("leaked-in-flight", tmp_path, pcie=True)
    while case.step():
        assert set(case.starting("nvmeof_namespace_io_stalled_seconds").values()) == {0}
        assert set(case.starting("nvmeof_namespace_io_now").values()) == {0}


def test_local_drives_are_served_when_asked_for(tmp_path: Path) -> None:
    case = Case("names-lie", tmp_path, pcie=True)
    (drive,) = case.starting("nvmeof_namespace_info", 'device="nvme0n1"')
    assert 'nqn="nqn.2014.08.org.nvmexpress:8086SER  Drive A      "' in drive
    (info,) = case.starting("nvmeof_path_info", 'controller="nvme1"')
    assert 'nqn="nqn.2014.08.org.nvmexpress:8086SER  Drive A      "' in info
    assert 'path="pcie:0000:af:00.0"' in info
    assert case.starting("nvmeof_subsystem_info", 'model="Drive A"', 'serial="SER"')


def test_a_reconnect_between_two_looks_is_counted(tmp_path: Path) -> None:
    case = Case("unseen-reconnect", tmp_path)
    nqn = "nqn.2026-01.org.example:flapping"
    first, second = (
        f'nvmeof_path_reconnect_attempts_total{{nqn="{nqn}",path="tcp:198.51.100.{n}:4420"}}'
        for n in (10, 11)
    )
    case.served.source.refresh_settings()
    before = case.now
    case.node.advance()
    case.served.source.refresh_settings()
    case.served.poll(60)
    case.now = case.served.samples()
    assert case.now[first] - before[first] == 3
    assert case.now[second] == before[second]
    case.node.advance()
    case.served.source.refresh_settings()
    case.served.poll(120)
    after = case.served.samples()
    assert after[second] > case.now[second]  # cntlid alone betrays it
    assert after[first] == case.now[first]


def test_one_nqn_in_two_directories_is_one_subsystem_with_two_of_everything(
    tmp_path: Path,
) -> None:
    case = Case("one-nqn-twice", tmp_path)
    nqn = "nqn.2026-01.org.example:shared"
    assert case.subsystem("paths", nqn) == 2
    assert len(case.starting("nvmeof_subsystem_info", nqn)) == 2
    assert len(case.starting("nvmeof_host_info")) == 2
    assert case.levels(nqn) == ["lost"]  # the second host's only path is inaccessible
    assert case.condition(nqn, "1", "optimized") == 1
    assert case.condition(nqn, "1#2", "unusable") == 1


def test_duplicates_orphans_and_private_namespaces_are_all_served(tmp_path: Path) -> None:
    case = Case("odd-shapes", tmp_path)
    assert case.state("nqn.2026-01.org.example:twins", "loop:") == ["live"]
    assert case.state("nqn.2026-01.org.example:twins", "loop:#2") == ["live"]
    assert case.starting("nvmeof_subsystem_info", 'iopolicy="newer-policy"')
    assert case.state("nqn.2026-01.org.example:orphan", "tcp:10.0.0.9:4420") == ["connecting"]
    assert case.now["nvmeof_discovery_controllers"] == 1
    private = "nqn.2026-01.org.example:private"
    assert case.condition(private, "1", "optimized") == 1
    assert case.condition(private, "1#2", "optimized") == 1


def test_odd_texts_are_escaped_and_odd_states_are_unknown(tmp_path: Path) -> None:
    case = Case("odd-texts", tmp_path)
    nqn = r"nqn.2026-01.org.example:odd\"\nline\\"
    assert case.starting(
        "nvmeof_subsystem_info", f'nqn="{nqn}"', 'model="Caf\ufffd \\"X\\""', 'serial=""'
    )
    assert case.state(nqn, "tcp:10.0.0.2:4420") == ["unknown"]
    assert case.state(nqn, "tcp:10.0.1.2:4420") == ["unknown"]
    assert case.state(nqn, "tcp:10.0.2.2:4420") == ["deleting"]
    assert not case.starting("nvmeof_path_state{", "tcp:10.0.3.2:4420")
    usable = case.starting("nvmeof_namespace_path_usable")
    assert sorted(usable.values()) == [0, 0]  # of the two others too little is known
    assert case.starting("nvmeof_subsystem_info", 'iopolicy="shortest-queue"')
