"""Pause frames among a driver's statistics: what each driver calls them.

Direction: ``rx`` is what the peer asks of us (it is congested, we stop sending), ``tx`` what
we ask of the peer. A frame that ends a pause (XON) is no request to stop and is left out
where a driver counts it apart; the others count every pause frame, XON among them.

Names are those of the drivers' sources in Linux, each row beside its own.
``docs/rdma.md`` tells the same to people.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.hardware import Pause

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["is_pause", "pauses"]

_MICROSECONDS = 1e6

#: Frames, best first: the first name that a driver has for a direction and priority is told.
#: Groups: ``d`` direction, ``p`` priority (global pause without).
_FRAMES = (
    # mellanox/mlx5/core/en_stats.c; the first also has durations
    r"(?P<d>[rt]x)_(?:global|prio(?P<p>\d))_pause",
    r"(?P<d>[rt]x)_pause_ctrl_phy",
    r"(?P<d>[rt]x)_pause(?:_prio_(?P<p>\d))?",  # mellanox/mlx4/en_ethtool.c
    # broadcom/bnxt/bnxt_ethtool.c
    r"(?P<d>[rt]x)_pfc_ena_frames_pri(?P<p>\d)",
    # bnxt, chelsio/cxgb4/cxgb4_ethtool.c, qlogic/qede/qede_ethtool.c
    r"(?P<d>[rt]x)_pause_frames",
    r"(?P<d>[rt]x)_ppp(?P<p>\d)_frames",  # cxgb4
    # intel/ice/ice_ethtool.c (irdma's netdevs)
    r"(?P<d>[rt]x)_priority_(?P<p>\d)_xoff\.nic",
    r"link_xoff_(?P<d>[rt]x)\.nic",
    # intel/i40e/i40e_ethtool.c, formerly without the direction at the end
    r"port\.(?P<d>[rt]x)_priority_(?P<p>\d)_xoff(?:_[rt]x)?",
    r"port\.link_xoff_(?P<d>[rt]x)",
    # intel/ixgbe/ixgbe_ethtool.c, the latter also in igb, igc and e1000e
    r"(?P<d>[rt]x)_pb_(?P<p>\d)_pxoff",
    r"(?P<d>[rt]x)_flow_control_xoff",
    # hisilicon/hns3/hns3pf/hclge_main.c
    r"mac_(?P<d>[rt]x)_pfc_pri(?P<p>\d)_pkt_num",
    r"mac_(?P<d>[rt]x)_mac_pause_num",
    r"mac\.(?P<d>[rt]x)_pause_frames_class(?P<p>\d)",  # netronome/nfp/nfp_net_ethtool.c
    r"frames_(?P<d>[rt]x)_pause",  # pensando/ionic/ionic_stats.c
)

#: Time paused, in microseconds.
_DURATIONS = (
    r"(?P<d>[rt]x)_(?:global|prio(?P<p>\d))_pause_duration",  # mlx5
    r"pfc_pri(?P<p>\d)_(?P<d>[rt]x)_duration_us",  # bnxt
)

_ANY = re.compile("|".join(re.sub(r"\?P<.>", "?:", p) for p in _FRAMES + _DURATIONS), re.ASCII)


class _Meaning(NamedTuple):
    """What one name counts; ``rank`` tells the better of two names for the same."""

    direction: str
    priority: str
    rank: int


def _compiled(patterns: tuple[str, ...]) -> list[re.Pattern[str]]:
    return [re.compile(pattern, re.ASCII) for pattern in patterns]


_FRAME_PATTERNS = _compiled(_FRAMES)
_DURATION_PATTERNS = _compiled(_DURATIONS)


def is_pause(name: str) -> bool:
    """Whether a statistic of this name is told; for choosing them out of thousands."""
    return _ANY.fullmatch(name) is not None


def pauses(statistics: Iterable[tuple[str, int]]) -> tuple[Pause, ...]:
    """Return the pauses that a driver's statistics (name, value) tell of, in order.

    Global pause comes first, then the priorities. Empty for a driver that counts none.
    """
    frames: dict[tuple[str, str], tuple[int, int]] = {}
    durations: dict[tuple[str, str], tuple[int, int]] = {}
    for name, value in statistics:
        for patterns, found in ((_FRAME_PATTERNS, frames), (_DURATION_PATTERNS, durations)):
            meaning = _meaning(patterns, name)
            if meaning is None:
                continue
            key = (meaning.priority, meaning.direction)
            if key not in found or meaning.rank < found[key][0]:
                found[key] = (meaning.rank, value)
    return tuple(
        Pause(
            direction,
            priority,
            frames=frames[priority, direction][1] if (priority, direction) in frames else None,
            seconds=durations[priority, direction][1] / _MICROSECONDS
            if (priority, direction) in durations
            else None,
        )
        for priority, direction in sorted(frames.keys() | durations.keys())
    )


def _meaning(patterns: list[re.Pattern[str]], name: str) -> _Meaning | None:
    for rank, pattern in enumerate(patterns):
        match = pattern.fullmatch(name)
        if match:
            groups = match.groupdict()
            return _Meaning(groups["d"], groups.get("p") or "", rank)
    return None
