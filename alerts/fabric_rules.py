"""What paths run over: ports, interfaces, their errors and pauses."""

from __future__ import annotations

from alerts.model import Alert, Group
from alerts.objectives import objective
from alerts.snippets import PATHS_OF_LINK, PATHS_OF_PORT

__all__ = ["FABRIC"]

_PORT_DOWN = Alert(
    name="NVMeoFRDMAPortDown",
    severity="warning",
    wait="1m",
    keep="2m",
    note="Of a port that carries a path, or did within the last hour.",
    expr="""
        max without (state) (
            (
                last_over_time(nvmeof_rdma_port_state{state="active"}[5m]) == 0
              or
                (
                    last_over_time(nvmeof_rdma_port_state{state="active"}[1h]) == 0
                  and on (job, instance)
                    up == 0
                )
            )
          and on (job, instance, device, port)
            label_replace(
              label_replace(
                last_over_time(nvmeof_path_info{rdma_device!=""}[1h]),
                "device", "$1", "rdma_device", "(.+)"
              ),
              "port", "$1", "rdma_port", "(.+)"
            )
        )
    """,
    summary="RDMA port {{ $labels.device }}/{{ $labels.port }} is down on {{ $labels.instance }}",
    description=(
        "RDMA port {{ $labels.device }}/{{ $labels.port }} of {{ $labels.instance }} carries",
        "NVMe-oF paths and is not active.",
        PATHS_OF_PORT,
        "First look at cable, transceiver and switch port:",
        "rdma link show {{ $labels.device }}/{{ $labels.port }}.",
    ),
)

_LINK_DOWN = Alert(
    name="NVMeoFLinkDown",
    severity="warning",
    wait="1m",
    keep="2m",
    note="""
        Also of the members of a bond. A port that never had a carrier (fewer than two
        changes of it) is not plugged in, which is no fault.
    """,
    expr="""
        (
            last_over_time(nvmeof_link_up[5m]) == 0
          or
            (last_over_time(nvmeof_link_up[1h]) == 0 and on (job, instance) up == 0)
        )
        unless on (job, instance, netdev)
          last_over_time(nvmeof_link_carrier_changes_total[1h]) < 2
    """,
    summary="Interface {{ $labels.netdev }} of {{ $labels.instance }} has no carrier",
    description=(
        "Interface {{ $labels.netdev }} of {{ $labels.instance }}, under NVMe-oF paths, has no",
        "link.",
        PATHS_OF_LINK,
        "First look at cable, transceiver and switch port: ip -s link show {{ $labels.netdev }}.",
    ),
)


def _rates(*statistics: str) -> str:
    """Rates of the statistics that match: one regular expression per line, for readers."""
    return "\n          or\n".join(
        f"          rate(nvmeof_rdma_port_statistic_total{{\n"
        f'            statistic=~"{pattern}"\n'
        f"          }}[5m])"
        for pattern in statistics
    )


_RDMA_ERRORS = Alert(
    name="NVMeoFRDMAErrors",
    severity="warning",
    wait="5m",
    keep="5m",
    note="""
        Errors of the link, packets lost on the way, answers that did not come: by the names
        of the kernel's drivers. Left out is what counts ordinary events too, such as
        requests flushed by a disconnect. The small counters of InfiniBand stop at their
        maximum, 255 or so, and tell nothing from then on.
    """,
    expr=f"""
        (
          # The link.
{
        _rates(
            "symbol_error|link_error_recovery|link_downed|port_rcv_errors|port_xmit_discards",
            "local_link_integrity_errors|excessive_buffer_overrun_errors|rx_icrc_encapsulated",
        )
    }
          or
          # Packets lost on the way.
{
        _rates(
            "out_of_sequence|packet_seq_err|implied_nak_seq_err|[rs]q_num_oos",
            "seq_err_naks_rcvd|(res_)?oos_drop_count|rcvd_seq_err|out_of_seq_request",
            "(requester_oos_nak|responder_oos)|req_rx_pkt_seq_err|tcpRetransSegs",
        )
    }
          or
          # Answers that did not come.
{
        _rates(
            "local_ack_timeout_err|sq_num_to|to_retransmits|requester_timeout",
            "tx_rdma_ack_timeout|req_(transport|rnr)_retries_exceeded|rnr_nak_retry_err",
            "max_retry_exceeded|retry_(rnr_)?exceeded_err|req_tx_retry_excd_err",
            "requester_(rnr_nak_)?retries_exceeded",
        )
    }
        ) > {objective("rdma_errors_per_second")}
    """,
    summary=(
        "{{ $labels.statistic }} rises on RDMA port"
        " {{ $labels.device }}{{ with $labels.port }}/{{ . }}{{ end }} of {{ $labels.instance }}"
    ),
    description=(
        "{{ $labels.statistic }} of RDMA port",
        "{{ $labels.device }}{{ with $labels.port }}/{{ . }}{{ end }} of {{ $labels.instance }}",
        'rises by {{ $value | printf "%.1f" }} per second. Requests are sent again or connections',
        "break: I/O gets slow before paths are lost.",
        PATHS_OF_PORT,
        "First compare both ends of the cable; on RoCE also the flow control settings.",
    ),
)

_PAUSE_STORM = Alert(
    name="NVMeoFPauseStorm",
    severity="warning",
    wait="5m",
    keep="5m",
    note="By time where the driver counts it, else by frames.",
    expr=f"""
        rate(nvmeof_link_pause_seconds_total[5m]) > {objective("pause_ratio")}
        or
        (
            rate(nvmeof_link_pause_frames_total[5m]) > {objective("pause_frames_per_second")}
          unless
            nvmeof_link_pause_seconds_total
        )
    """,
    summary=(
        "Interface {{ $labels.netdev }} of {{ $labels.instance }}"
        ' {{ if eq $labels.direction "rx" }}is paused by its peer{{ else }}pauses its peer'
        "{{ end }}"
    ),
    description=(
        "Many pause frames{{ with $labels.priority }} of priority {{ . }}{{ end }} on",
        "{{ $labels.netdev }} of {{ $labels.instance }}:",
        """
{{ if eq $labels.direction "rx" -}}
the switch asks this node to stop, because of congestion or a slow receiver elsewhere.
{{- else -}}
this node asks the switch to stop, because it cannot take what comes; that spreads to others.
{{- end }}
""",
        "Throughput falls and keep-alives may come late.",
        PATHS_OF_LINK,
        "First find who pauses whom: compare the counters of the switch ports.",
    ),
)

FABRIC = Group(
    "nvmeof-fabric",
    "What paths run over.",
    (_PORT_DOWN, _LINK_DOWN, _RDMA_ERRORS, _PAUSE_STORM),
)
