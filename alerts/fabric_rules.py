"""What paths run over: ports, interfaces, their errors and pauses."""

from __future__ import annotations

from alerts.last_words import last_word
from alerts.model import Alert, Group
from alerts.objectives import objective
from alerts.snippets import PATHS_OF_LINK, PATHS_OF_PORT

__all__ = ["FABRIC"]

_PORT = last_word(
    "device_port:nvmeof_rdma_port_state:down",
    note="RDMA ports that are not active and carry a path, or did within the last hour.",
    expr="""
        max without (state) (
            nvmeof_rdma_port_state{state="active"} == 0
          and on (cluster, job, instance, device, port)
            label_replace(
              label_replace(
                last_over_time(nvmeof_path_info{rdma_device!=""}[1h]),
                "device", "$1", "rdma_device", "(.+)"
              ),
              "port", "$1", "rdma_port", "(.+)"
            )
        )
    """,
)

_PORT_DOWN = Alert(
    name="NVMeoFRDMAPortDown",
    severity="warning",
    wait="1m",
    keep="2m",
    expr=_PORT.name,
    summary="{{ $labels.instance }}: RDMA port {{ $labels.device }}/{{ $labels.port }} is down",
    description=(
        "RDMA port {{ $labels.device }}/{{ $labels.port }} of {{ $labels.instance }} carries",
        "NVMe-oF paths and is not active.",
        PATHS_OF_PORT,
        "First look at cable, transceiver and switch port:",
        "rdma link show {{ $labels.device }}/{{ $labels.port }}.",
    ),
)

_LINK = last_word(
    "netdev:nvmeof_link_up:down",
    note="""
        Interfaces that lost their carrier, members of a bond among them. A port that never
        had one is not plugged in, which is no fault: it was not up in the last quarter of an
        hour, and its carrier has changed less than twice. Some virtual interfaces count the
        first loss as the first change: so the record holds itself.
    """,
    expr="""
        nvmeof_link_up == 0
        unless on (cluster, job, instance, netdev)
          (
              last_over_time(nvmeof_link_carrier_changes_total[5m]) < 2
            unless on (cluster, job, instance, netdev)
              max_over_time(nvmeof_link_up[15m]) == 1
            unless on (cluster, job, instance, netdev)
              netdev:nvmeof_link_up:down
          )
    """,
)

_LINK_DOWN = Alert(
    name="NVMeoFLinkDown",
    severity="warning",
    wait="1m",
    keep="2m",
    expr=_LINK.name,
    summary="{{ $labels.instance }}: interface {{ $labels.netdev }} has no carrier",
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
        "{{ $labels.instance }}: {{ $labels.statistic }} rises on RDMA port"
        " {{ $labels.device }}{{ with $labels.port }}/{{ . }}{{ end }}"
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
        "{{ $labels.instance }}: interface {{ $labels.netdev }}"
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
    (_PORT, _PORT_DOWN, _LINK, _LINK_DOWN, _RDMA_ERRORS, _PAUSE_STORM),
)
