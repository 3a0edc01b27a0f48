"""Ready-made policies. docs/policy.md gives the reason of every figure.

``conservative`` is the default: it speaks up where a setting is known to hurt, accepts
the kernel's own defaults, and leaves matters of taste alone. ``gpu-training`` is the
checklist before a long run of many nodes that wait for each other. The vendors' hold
their subsystems to what the vendor itself ships for Linux hosts, and everything else to
``conservative``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nvmeof_exporter.config.errors import ConfigError, quoted, suggestion
from nvmeof_exporter.policy.model import Layer, Limits, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_PRESET", "PRESETS", "preset_policy"]

DEFAULT_PRESET = "conservative"

_MINUTE = 60.0

_ON, _OFF = Limits(enabled=True), Limits(enabled=False)

_CONSERVATIVE = Layer(
    {
        "native_multipath": _ON,
        "host_identity": _ON,
        "host_id_matches": _OFF,
        "redundancy": Limits(enabled=True, one_of=("redundant", "degraded")),
        "shared_fate": Limits(enabled=True, one_of=("netdev", "target_address")),
        "paths": Limits(enabled=False, least=2),
        "iopolicy": Limits(enabled=False, one_of=("round-robin", "queue-depth")),
        "equal_settings": _ON,
        "keep_alive": Limits(enabled=True, most=30.0),
        "reconnect_delay": Limits(enabled=True, most=30.0),
        "ctrl_loss_tmo": Limits(enabled=True, least=2 * _MINUTE),
        "fast_io_fail_tmo": Limits(enabled=True, least=10.0),
        "io_timeout": Limits(enabled=True, most=2 * _MINUTE),
        "queues": Limits(enabled=True, least=2),
    }
)

_GPU_TRAINING = Layer(
    {
        "redundancy": Limits(one_of=("redundant",)),
        "shared_fate": Limits(one_of=("netdev", "nic", "target_address")),
        "paths": _ON,
        "iopolicy": _ON,
        "keep_alive": Limits(most=5.0),
        "reconnect_delay": Limits(most=10.0),
        "ctrl_loss_tmo": Limits(least=10 * _MINUTE),
        "fast_io_fail_tmo": Limits(least=10 * _MINUTE),
        "io_timeout": Limits(most=_MINUTE),
    }
)


def _vendor(
    models: tuple[str, ...],
    *,
    iopolicies: tuple[str, ...] = (),
    kept_forever_over: tuple[str, ...] | None = None,
) -> tuple[Layer, ...]:
    """Layers for the subsystems of some models, over ``conservative`` for everything.

    ``kept_forever_over``: the transports whose ctrl_loss_tmo is to be off; ``()``: of all.
    """
    layers = [_CONSERVATIVE]
    if iopolicies:
        layers.append(Layer({"iopolicy": Limits(enabled=True, one_of=iopolicies)}, models=models))
    if kept_forever_over is not None:
        never = {"ctrl_loss_tmo": Limits(least=math.inf)}
        layers.append(Layer(never, models=models, transports=kept_forever_over))
    return tuple(layers)


#: Layers by name. What NetApp, HPE and VAST want is what they contributed to nvme-cli:
#: nvmf-autoconnect/udev-rules/71-nvmf-{netapp,hpe,vastdata}.rules.in, models included (for
#: ONTAP it said round-robin before kernels knew queue-depth, and Debian 12 still ships that).
#: Dell: Host Connectivity Guide for Linux, PowerStore, NVMe/TCP; its model is the one that
#: multipath-tools knows (libmultipath/hwtable.c).
PRESETS: Mapping[str, tuple[Layer, ...]] = {
    "conservative": (_CONSERVATIVE,),
    "gpu-training": (_CONSERVATIVE, _GPU_TRAINING),
    "dell-powerstore": _vendor(("dellemc-powerstore",), kept_forever_over=("tcp",)),
    "hpe-alletra": _vendor(
        ("HPE Alletra",), iopolicies=("round-robin",), kept_forever_over=("tcp",)
    ),
    "netapp-e-series": _vendor(("NetApp E-Series",), iopolicies=("round-robin",)),
    "netapp-ontap": _vendor(
        ("NetApp ONTAP Controller",),
        iopolicies=("queue-depth", "round-robin"),
        kept_forever_over=("tcp",),
    ),
    "vast": _vendor(("VASTData",), iopolicies=("round-robin",), kept_forever_over=()),
}


def preset_policy(
    name: str = DEFAULT_PRESET, where: str = "default", own: tuple[Layer, ...] = ()
) -> Policy:
    """The policy of a preset, with ``own`` layers on top.

    Raises ConfigError that names ``where`` (a flag, or ``file:line: key``) when there
    is no such preset.
    """
    if name not in PRESETS:
        raise ConfigError(
            f"{where}: found {quoted(name)}, expected one of {', '.join(PRESETS)}"
            f"{suggestion(name, PRESETS)}"
        )
    return Policy(name, PRESETS[name], own)
