"""Template actions that descriptions share: they look up what labels must not hold.

A controller, an interface or a state may change while an alert fires; as a label it would
make another alert of it. ``%q`` quotes label values as PromQL reads them, whatever they hold.
"""

from __future__ import annotations

__all__ = [
    "CHANGED",
    "CONTROLLER",
    "DEVICE",
    "EXPECTED",
    "LOST_NAMESPACES",
    "PATHS",
    "PATHS_OF_LINK",
    "PATHS_OF_PORT",
    "PATH_CHANGED",
    "STALLED_PATHS",
    "VIOLATORS",
]

#: " PATH (nvme1 over h1) is STATE." for each path of ``$labels.nqn``.
PATHS = """
{{- range printf `last_over_time(nvmeof_path_state{cluster=%q,job=%q,instance=%q,nqn=%q}[5m]) == 1`
$labels.cluster $labels.job $labels.instance $labels.nqn | query | sortByLabel "path" }}
{{ .Labels.path }}
{{- range printf `topk(1, nvmeof_path_info{cluster=%q,job=%q,instance=%q,nqn=%q,path=%q})`
$labels.cluster $labels.job $labels.instance $labels.nqn .Labels.path | query }}
({{ .Labels.controller }}{{ with .Labels.netdev }} over {{ . }}{{ end }})
{{- end }}
is {{ .Labels.state }}.
{{- end }}
"""

#: " Namespace 1 has none." for each namespace of ``$labels.nqn`` that is still there.
LOST_NAMESPACES = """
{{- range printf `sum by (nsid) (
last_over_time(nvmeof_namespace_paths{cluster=%q,job=%q,instance=%q,nqn=%q,condition=~"(non-)?optimized"}[5m])
) == 0` $labels.cluster $labels.job $labels.instance $labels.nqn | query | sortByLabel "nsid" }}
Namespace {{ .Labels.nsid }} has none.
{{- end }}
"""

#: When the newest change of any path of ``$labels.nqn`` was, on the exporter's clock.
CHANGED = """
{{- range printf `min(
last_over_time(nvmeof_exporter_last_poll_timestamp_seconds{cluster=%q,job=%q,instance=%q}[5m])
- ignoring (nqn, path) group_right ()
last_over_time(nvmeof_path_last_transition_timestamp_seconds{cluster=%q,job=%q,instance=%q,nqn=%q}[5m])
) >= 0` $labels.cluster $labels.job $labels.instance
$labels.cluster $labels.job $labels.instance $labels.nqn | query }}
The newest change of a path is {{ .Value | humanizeDuration }} ago.
{{- end }}
"""

#: The same of path ``$labels.path``.
PATH_CHANGED = """
{{- range printf `min(
last_over_time(nvmeof_exporter_last_poll_timestamp_seconds{cluster=%q,job=%q,instance=%q}[5m])
- ignoring (nqn, path) group_right ()
last_over_time(nvmeof_path_last_transition_timestamp_seconds{cluster=%q,job=%q,instance=%q,nqn=%q,path=%q}[5m])
) >= 0` $labels.cluster $labels.job $labels.instance
$labels.cluster $labels.job $labels.instance $labels.nqn $labels.path | query }}
Its state last changed {{ .Value | humanizeDuration }} ago.
{{- end }}
"""

#: " (controller nvme1, interface h1)" after a path.
CONTROLLER = """
{{- range printf `topk(1, nvmeof_path_info{cluster=%q,job=%q,instance=%q,nqn=%q,path=%q}
or on (nqn) last_over_time(nvmeof_path_info{cluster=%q,job=%q,instance=%q,nqn=%q,path=%q}[1h]))`
$labels.cluster $labels.job $labels.instance $labels.nqn $labels.path
$labels.cluster $labels.job $labels.instance $labels.nqn $labels.path | query }}
(controller {{ .Labels.controller }}
{{- with .Labels.netdev }}, interface {{ . }}{{ end }}
{{- with .Labels.rdma_device }}, RDMA device {{ . }}{{ end }})
{{- end }}
"""

#: " (/dev/nvme0n1)" after a namespace.
DEVICE = """
{{- range printf `topk(1,
last_over_time(nvmeof_namespace_info{cluster=%q,job=%q,instance=%q,nqn=%q,nsid=%q,device!=""}[1h]))`
$labels.cluster $labels.job $labels.instance $labels.nqn $labels.nsid | query }}
(/dev/{{ .Labels.device }})
{{- end }}
"""

#: Paths of namespace ``$labels.nsid`` that hold requests of which none ends.
STALLED_PATHS = """
{{- range printf `0 <
last_over_time(nvmeof_namespace_path_io_stalled_seconds{cluster=%q,job=%q,instance=%q,nqn=%q,nsid=%q}[5m])`
$labels.cluster $labels.job $labels.instance $labels.nqn $labels.nsid
| query | sortByLabel "path" }}
Requests are caught on {{ .Labels.path }}.
{{- end }}
"""

#: Paths over RDMA port ``$labels.device``/``$labels.port``.
PATHS_OF_PORT = """
{{- range printf `max by (nqn, path, netdev) (
last_over_time(nvmeof_path_info{cluster=%q,job=%q,instance=%q,rdma_device=%q,rdma_port=%q}[1h]))`
$labels.cluster $labels.job $labels.instance $labels.device $labels.port
| query | sortByLabel "path" }}
Path {{ .Labels.path }} of {{ .Labels.nqn }} uses it, by interface {{ .Labels.netdev }}.
{{- end }}
"""

#: Paths over interface ``$labels.netdev``.
PATHS_OF_LINK = """
{{- range printf `max by (nqn, path) (
last_over_time(nvmeof_path_info{cluster=%q,job=%q,instance=%q,netdev=%q}[1h]))`
$labels.cluster $labels.job $labels.instance $labels.netdev | query | sortByLabel "path" }}
Path {{ .Labels.path }} of {{ .Labels.nqn }} uses it.
{{- end }}
"""

#: Paths that violate ``$labels.rule``, where it is about paths.
VIOLATORS = """
{{- range printf `1 == last_over_time(
nvmeof_policy_violation{cluster=%q,job=%q,instance=%q,nqn=%q,rule=%q,path!=""}[5m])`
$labels.cluster $labels.job $labels.instance $labels.nqn $labels.rule
| query | sortByLabel "path" }}
Path {{ .Labels.path }} violates it.
{{- end }}
"""

#: How many paths there should be to ``$labels.nqn``.
EXPECTED = """
{{- range printf `last_over_time(
nvmeof_subsystem_paths_expected{cluster=%q,job=%q,instance=%q,nqn=%q}[5m])`
$labels.cluster $labels.job $labels.instance $labels.nqn | query }}
{{ .Value }} paths are expected.
{{- end }}
"""
