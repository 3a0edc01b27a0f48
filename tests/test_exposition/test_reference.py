from __future__ import annotations

import re
from pathlib import Path

import pytest

from nvmeof_exporter.exposition.metrics import METRICS, SECTIONS, Metric
from nvmeof_exporter.exposition.reference import reference

ROOT = Path(__file__).parents[2]

_IO = (
    "reads_completed_total",
    "writes_completed_total",
    "read_bytes_total",
    "written_bytes_total",
    "read_time_seconds_total",
    "write_time_seconds_total",
    "io_now",
)

#: What scrapers, rules and dashboards rely on: labels by name. Names may be added, none removed.
CONTRACT = {
    "nvmeof_exporter_build_info": "version python",
    "nvmeof_host_info": "hostnqn hostid",
    "nvmeof_kernel_multipath_enabled": "",
    "nvmeof_subsystem_info": "nqn subsystem model serial firmware iopolicy",
    "nvmeof_path_info": "nqn path controller transport traddr trsvcid host_traddr host_iface"
    " src_addr cntlid netdev rdma_device rdma_port",
    "nvmeof_namespace_info": "nqn nsid device wwid",
    "nvmeof_namespace_size_bytes": "nqn nsid",
    "nvmeof_discovery_controllers": "",
    "nvmeof_path_state": "nqn path state",
    "nvmeof_namespace_path_ana_state": "nqn nsid path ana_state",
    "nvmeof_namespace_path_usable": "nqn nsid path",
    "nvmeof_namespace_paths": "nqn nsid condition",
    "nvmeof_subsystem_paths": "nqn",
    "nvmeof_subsystem_paths_usable": "nqn",
    "nvmeof_subsystem_paths_expected": "nqn",
    "nvmeof_subsystem_redundancy": "nqn level",
    "nvmeof_path_transitions_total": "nqn path to",
    "nvmeof_path_state_seconds_total": "nqn path state",
    "nvmeof_path_last_transition_timestamp_seconds": "nqn path",
    "nvmeof_path_outage_seconds": "nqn",
    "nvmeof_path_ana_transitions_total": "nqn path to",
    "nvmeof_path_resets_total": "nqn path",
    "nvmeof_path_reconnect_attempts_total": "nqn path",
    "nvmeof_path_errors_total": "nqn path cause",
    "nvmeof_failovers_total": "nqn path cause",
    "nvmeof_failover_duration_seconds": "nqn",
    "nvmeof_failover_phase_seconds": "nqn phase",
    "nvmeof_failover_last_duration_seconds": "nqn",
    "nvmeof_failover_last_timestamp_seconds": "nqn",
    "nvmeof_failover_in_progress": "nqn",
    "nvmeof_namespace_io_stalled_seconds": "nqn nsid",
    "nvmeof_namespace_path_io_stalled_seconds": "nqn nsid path",
    "nvmeof_namespace_io_stall_duration_seconds": "nqn",
    "nvmeof_failbacks_total": "nqn path",
    "nvmeof_namespace_io_requeued_total": "nqn nsid",
    "nvmeof_namespace_io_failed_total": "nqn nsid",
    "nvmeof_path_keep_alive_timeout_seconds": "nqn path",
    "nvmeof_path_ctrl_loss_timeout_seconds": "nqn path",
    "nvmeof_path_reconnect_delay_seconds": "nqn path",
    "nvmeof_path_fast_io_fail_timeout_seconds": "nqn path",
    "nvmeof_path_io_timeout_seconds": "nqn path",
    "nvmeof_path_queues": "nqn path",
    **{f"nvmeof_namespace_path_{name}": "nqn nsid path" for name in _IO},
    **{f"nvmeof_namespace_{name}": "nqn nsid" for name in _IO},
    "nvmeof_path_link_up": "nqn path",
    "nvmeof_rdma_port_info": "device port netdev link_layer firmware hca",
    "nvmeof_rdma_port_state": "device port state",
    "nvmeof_rdma_port_physical_state": "device port state",
    "nvmeof_rdma_port_rate_bytes_per_second": "device port",
    "nvmeof_rdma_port_received_bytes_total": "device port",
    "nvmeof_rdma_port_transmitted_bytes_total": "device port",
    "nvmeof_rdma_port_received_packets_total": "device port",
    "nvmeof_rdma_port_transmitted_packets_total": "device port",
    "nvmeof_rdma_port_statistic_total": "device port statistic",
    "nvmeof_link_up": "netdev",
    "nvmeof_link_carrier_changes_total": "netdev",
    "nvmeof_link_speed_bytes_per_second": "netdev",
    "nvmeof_link_pause_frames_total": "netdev direction priority",
    "nvmeof_link_pause_seconds_total": "netdev direction priority",
    "nvmeof_subsystem_distinct": "nqn resource",
    "nvmeof_exporter_poll_interval_seconds": "",
    "nvmeof_exporter_poll_duration_seconds": "",
    "nvmeof_exporter_last_poll_timestamp_seconds": "",
    "nvmeof_exporter_poll_overruns_total": "",
    "nvmeof_exporter_collector_success": "collector",
    "nvmeof_exporter_collector_duration_seconds": "collector",
    "nvmeof_exporter_read_errors_total": "collector",
    "nvmeof_exporter_events_total": "source",
    "nvmeof_exporter_scrape_duration_seconds": "",
}


def test_the_reference_in_the_documentation_is_the_generated_one() -> None:
    written = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert written == reference(), "run `make docs`"


@pytest.mark.parametrize("name", CONTRACT)
def test_a_promised_metric_exists_with_exactly_its_labels(name: str) -> None:
    assert METRICS[name].labels == tuple(CONTRACT[name].split())


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_in_the_reference_with_its_labels(name: str) -> None:
    metric = METRICS[name]
    labels = " ".join(f"`{label}`" for label in metric.labels)
    assert f"| `{name}` | {metric.kind} | {labels} | {metric.help} |" in reference().splitlines()


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_kinds_and_labels_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"nvmeof(_[a-z0-9]+)+", metric.name)
    assert metric.kind in {"gauge", "counter", "histogram", "info"}
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith("_info") == (metric.kind == "info")
    assert not {"type", "job", "instance", "le", "quantile"} & set(metric.labels)
    assert metric.help.endswith(".")
    assert "|" not in metric.help


def test_no_metric_is_in_two_sections() -> None:
    names = [metric.name for metrics in SECTIONS.values() for metric in metrics]
    assert len(names) == len(set(names)) == len(METRICS)
