"""What the files of NVMe devices hold, byte for byte as the kernel writes them.

Sources: drivers/nvme/host/{sysfs,multipath,fabrics,diag}.c and block/genhd.c;
compared with real trees of stock kernels. ``*_files`` is everything of a device,
``*_moving`` what can change while it exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter.demo.view import source_address

if TYPE_CHECKING:
    from nvmeof_exporter.demo.devices import Controller, Namespace, Path, Subsystem
    from nvmeof_exporter.demo.simulation import Node
    from nvmeof_exporter.model import IoCounters

__all__ = [
    "controller_files",
    "controller_moving",
    "disk_counters",
    "head_diag",
    "head_files",
    "path_files",
    "path_states",
    "subsystem_files",
]

#: ``model`` and ``serial`` are padded with blanks to the width of the Identify fields.
_MODEL_WIDTH = 40
_SERIAL_WIDTH = 20
_FIRMWARE_WIDTH = 8

_MAJOR = 259  # BLOCK_EXT_MAJOR
_SECTOR_BYTES = 512


def subsystem_files(subsystem: Subsystem) -> dict[str, bytes]:
    """Return the files of ``nvme-subsysS``; none of them changes."""
    return {
        **_identity(subsystem),
        "iopolicy": _line(subsystem.iopolicy),
        "subsysnqn": _line(subsystem.nqn),
        "subsystype": _line("discovery" if subsystem.discovery else "nvm"),
        "uevent": b"",
    }


def controller_files(node: Node, controller: Controller) -> dict[str, bytes]:
    """Return the files of ``nvmeX``."""
    connection = controller.connection
    path, timeouts = connection.path_id, connection.timeouts
    files = {
        **_identity(controller.subsystem),
        "cntrltype": _line("discovery" if controller.subsystem.discovery else "io"),
        "ctrl_loss_tmo": _line(_or_off(timeouts.shown_ctrl_loss)),
        "dctype": _line("none"),
        "dev": _line(f"244:{controller.instance}"),
        "fast_io_fail_tmo": _line(_or_off(timeouts.fast_io_fail)),
        "hostid": _line(node.hostid),
        "hostnqn": _line(node.hostnqn),
        "kato": _line(timeouts.keep_alive),
        "numa_node": _line(-1),
        "queue_count": _line(timeouts.queues),
        "reconnect_delay": _line(timeouts.reconnect_delay),
        "sqsize": _line(127),
        "subsysnqn": _line(controller.subsystem.nqn),
        "transport": _line(path.transport),
        "uevent": _lines(
            "MAJOR=244",
            f"MINOR={controller.instance}",
            f"DEVNAME={controller.name}",
            f"NVME_TRTYPE={path.transport}",
            f"NVME_TRADDR={path.traddr}",
            f"NVME_TRSVCID={path.trsvcid or 'none'}",
            f"NVME_HOST_TRADDR={path.host_traddr or 'none'}",
            f"NVME_HOST_IFACE={path.host_iface or 'none'}",
        ),
        **controller_moving(node, controller),
    }
    if node.kernel.diag:
        files["admin_timeout"] = _line(60_000)
        files["io_timeout"] = _line(node.io_timeout * 1000)
        files["diag/command_error_count"] = _line(0)
    return files


def controller_moving(node: Node, controller: Controller) -> dict[str, bytes]:
    """Return the files of ``nvmeX`` that can change, ``state`` last."""
    files = {
        "address": _line(_address(controller)),
        "cntlid": _line(controller.cntlid),
    }
    if node.kernel.diag:
        files["diag/reconnect_count"] = _line(controller.reconnects)
        files["diag/reset_count"] = _line(controller.resets)
    files["state"] = _line(controller.state)
    return files


def path_files(node: Node, path: Path) -> dict[str, bytes]:
    """Return the files of a hidden path disk."""
    namespace = path.namespace
    files = {
        **_disk_files(node, namespace),
        "ana_grpid": _line(namespace.group),
        "hidden": _line(1),
        "uevent": _lines("DEVTYPE=disk", f"DISKSEQ={path.minor + 1}"),
        **path_states(node, path),
        **disk_counters(path.counters.values(node.now), path.counters.reading),
    }
    if node.kernel.diag:
        files["diag/command_error_count"] = _line(0)
        files["diag/command_retries_count"] = _line(0)
    return files


def path_states(node: Node, path: Path) -> dict[str, bytes]:
    """Return what else of a path can change, to be written before its counters.

    The kernel raises the failover count before it ends the request.
    """
    policy = path.namespace.subsystem.iopolicy
    files = {"ana_state": _line(path.ana_state)}
    if node.kernel.diag:
        files["diag/multipath_failover_count"] = _line(path.failovers)
    if node.kernel.multipath_links:
        depth, chosen = path.controller.in_flight, path.namespace.current is path
        files["queue_depth"] = _line(depth) if policy == "queue-depth" else b""
        files["numa_nodes"] = _line("0" if chosen else "") if policy == "numa" else b""
    return files


def disk_counters(values: IoCounters, reading: int) -> dict[str, bytes]:
    """Return ``inflight`` and ``stat`` of a disk, of whose requests ``reading`` are reads."""
    return {
        "inflight": b"%8d %8d\n" % (reading, values.in_flight - reading),
        "stat": b" ".join(b"%8d" % value for value in values) + b"\n",
    }


def head_files(node: Node, namespace: Namespace) -> dict[str, bytes]:
    """Return the files of a head disk."""
    number = namespace.minor
    files = {
        **_disk_files(node, namespace),
        "dev": _line(f"{_MAJOR}:{number}"),
        "hidden": _line(0),
        "uevent": _lines(
            f"MAJOR={_MAJOR}",
            f"MINOR={number}",
            f"DEVNAME={namespace.disk}",
            "DEVTYPE=disk",
            f"DISKSEQ={number + 1}",
        ),
        **head_diag(node, namespace),
        **disk_counters(namespace.counters.values(node.now), namespace.counters.reading),
    }
    if node.kernel.multipath_links:
        files["delayed_removal_secs"] = _line(0)
    return files


def head_diag(node: Node, namespace: Namespace) -> dict[str, bytes]:
    """Return the head's ``diag/`` counters, where the kernel has them."""
    if not node.kernel.diag:
        return {}
    return {
        "diag/io_fail_no_available_path_count": _line(namespace.failed),
        "diag/io_requeue_no_usable_path_count": _line(namespace.requeued),
    }


def _disk_files(node: Node, namespace: Namespace) -> dict[str, bytes]:
    files = {
        "events": b"",
        "events_async": b"",
        "events_poll_msecs": _line(-1),
        "nsid": _line(namespace.nsid),
        "removable": _line(0),
        "ro": _line(0),
        "size": _line(namespace.size_bytes // _SECTOR_BYTES),
        "uuid": _line(namespace.uuid),
        "wwid": _line(f"uuid.{namespace.uuid}"),
    }
    if node.kernel.csi:
        files["csi"] = _line(0)
        files["metadata_bytes"] = _line(0)
    return files


def _identity(subsystem: Subsystem) -> dict[str, bytes]:
    return {
        "firmware_rev": _line(subsystem.firmware.ljust(_FIRMWARE_WIDTH)),
        "model": _line(subsystem.model.ljust(_MODEL_WIDTH)),
        "serial": _line(subsystem.serial.ljust(_SERIAL_WIDTH)),
    }


def _address(controller: Controller) -> str:
    """Make ``address``: only what was given at connect time, and ``src_addr`` while live."""
    path = controller.connection.path_id
    parts = {
        "traddr": path.traddr,
        "trsvcid": path.trsvcid,
        "host_traddr": path.host_traddr,
        "host_iface": path.host_iface,
        "src_addr": source_address(controller.connection),
    }
    return ",".join(f"{name}={value}" for name, value in parts.items() if value)


def _or_off(value: int | None) -> int | str:
    return "off" if value is None else value


def _line(value: object) -> bytes:
    return f"{value}\n".encode()


def _lines(*values: str) -> bytes:
    return "".join(f"{value}\n" for value in values).encode()
