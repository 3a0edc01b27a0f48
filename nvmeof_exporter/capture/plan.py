"""What of ``/sys`` goes into a bundle, and nothing else.

A list of what is taken, not of what is left out: a file that a later kernel adds may hold
a secret or send a command to a device, and would be in bundles before anybody knew. So
never taken are, among others, ``dhchap_secret``, ``dhchap_ctrl_secret``, ``tls_key`` and
``tls_configured_key`` (secrets, or names of them), ``nuse`` and ``hwmon*`` (commands to
the device), and PCI configuration space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GROUPS", "MODULES", "PARAMETERS", "Kind"]

_ANY = re.compile(r"[^/]+")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of directory: what in it is taken, by patterns that match whole names.

    Files are read; ``links`` are kept as links, and what they lead to is taken as the kind
    that is said, where one is; ``directories`` likewise. ``indexed``: files are numbered, and
    most numbers are not in use and answer EINVAL.
    """

    files: re.Pattern[str] | None = None
    links: Mapping[str, Kind | None] = field(default_factory=dict)
    directories: Mapping[str, Kind] = field(default_factory=dict)
    indexed: bool = False

    def link(self, name: str) -> tuple[bool, Kind | None]:
        """Whether a link of this name is kept, and what it leads to."""
        for pattern, kind in self.links.items():
            if re.fullmatch(pattern, name):
                return True, kind
        return False, None

    def directory(self, name: str) -> Kind | None:
        """The kind of a directory of this name; None for one that is not taken."""
        return next((k for p, k in self.directories.items() if re.fullmatch(p, name)), None)


def _names(text: str) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, text.split())))


_EVERY_FILE = Kind(files=_ANY)

#: Where an interface, RDMA device or drive is plugged in: what the kernel has in memory of it.
_HARDWARE = Kind(
    files=_names("class device numa_node revision subsystem_device subsystem_vendor vendor"),
    links={"driver": None},
)
_DEVICE = {"device": Kind(_HARDWARE.files, {"driver": None, "physfn": _HARDWARE})}

_DISK_SETTINGS = Kind(
    files=_names(
        "io_timeout logical_block_size max_sectors_kb nr_requests physical_block_size "
        "scheduler write_cache"
    )
)
_DISK = Kind(
    files=_names(
        "ana_grpid ana_state delayed_removal_secs hidden inflight nsid numa_nodes queue_depth "
        "ro size stat wwid"
    ),
    directories={"diag": _EVERY_FILE, "queue": _DISK_SETTINGS},
)
_CONTROLLER = Kind(
    files=_names(
        "address admin_timeout cntlid cntrltype ctrl_loss_tmo dctype fast_io_fail_tmo "
        "firmware_rev hostid hostnqn io_timeout kato model numa_node queue_count quirks "
        "reconnect_delay serial sqsize state subsysnqn transport"
    ),
    links=_DEVICE,
    directories={r"nvme\d+(c\d+)?n\d+": _DISK, "diag": _EVERY_FILE},
)
_SUBSYSTEM = Kind(
    files=_names("firmware_rev iopolicy model serial subsysnqn subsystype"),
    links={r"nvme\d+": _CONTROLLER},
    directories={r"nvme\d+n\d+": _DISK, r"nvme\d+": _CONTROLLER},
)

_COUNTERS = {"counters": _EVERY_FILE, "hw_counters": _EVERY_FILE}
_NUMBERED = Kind(files=re.compile(r"\d{1,4}", re.ASCII), indexed=True)
_PORT = Kind(
    files=_names("cap_mask lid link_layer phys_state rate sm_lid state"),
    directories={
        **_COUNTERS,
        "gid_attrs": Kind(directories={"ndevs": _NUMBERED, "types": _NUMBERED}),
        "gids": _NUMBERED,
    },
)
_RDMA = Kind(
    files=_names("board_id fw_ver hca_type hw_rev node_type parent"),
    links=_DEVICE,
    directories={**_COUNTERS, "ports": Kind(directories={r"\d+": _PORT})},
)

_INTERFACE = Kind(
    files=_names(
        "carrier carrier_changes carrier_down_count carrier_up_count dev_id dev_port duplex "
        "flags ifindex iflink mtu operstate speed tx_queue_len type"
    ),
    links={**_DEVICE, "(lower|upper)_.+|master": None},
    directories={
        "bonding": Kind(files=_names("active_slave mii_status miimon mode slaves")),
        "brif": Kind(links={".+": None}),
        "statistics": Kind(
            files=_names(
                "rx_bytes rx_crc_errors rx_dropped rx_errors rx_missed_errors rx_packets "
                "tx_bytes tx_carrier_errors tx_dropped tx_errors tx_packets"
            )
        ),
    },
)

#: Directories whose entries are devices, with the names that are taken and their kind.
GROUPS = (
    ("class/nvme-subsystem", r"nvme-subsys\d+", _SUBSYSTEM),
    ("class/nvme", r"nvme\d+", _CONTROLLER),
    ("block", r"nvme\d+(c\d+)?n\d+", _DISK),
    ("class/infiniband", ".+", _RDMA),
    ("class/net", ".+", _INTERFACE),
)

#: Modules whose parameters are taken.
PARAMETERS = re.compile(r"nvme(_core|_fabrics|_tcp|_rdma|_fc|_keyring|_auth)?", re.ASCII)

#: Modules whose versions are taken, where they have one of their own.
MODULES = re.compile(
    r"nvme\w*|ib_\w+|rdma_\w+|mlx[45]_\w+|bnxt_\w+|irdma|ice|i40e|ionic|cxgb4|qed\w*|efa|hns\w*|"
    r"rdma_rxe|siw|erdma|mana\w*|lpfc|qla2xxx",
    re.ASCII,
)
