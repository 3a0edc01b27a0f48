"""Ready-made nodes: the demonstration's, and sizes for load tests."""

from __future__ import annotations

from typing import NamedTuple

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.simulation import DISCOVERY_NQN, Node
from nvmeof_exporter.model import PathId

__all__ = ["SIZES", "Size", "add_discovery", "array_node", "demo_node", "sized_node"]


class Size(NamedTuple):
    """How much a node of a load test has."""

    subsystems: int
    paths: int
    namespaces: int
    ports: int


#: Paths and namespaces are those of each subsystem, ports those of the node.
SIZES = {
    "small": Size(1, 2, 2, 2),
    "gpu-node": Size(8, 4, 4, 8),
    "large": Size(64, 8, 4, 16),
}

#: Files that make a port of a load test one of 60 counters, on the newest kernel.
_VENDOR_COUNTERS = 7

#: Bus numbers of the cards in a machine of two sockets.
_BUSES = (0x17, 0x65, 0x98, 0xCA, 0x2A, 0x51, 0xAB, 0xDA)

_ARRAY_NQN = "nqn.2026-01.org.example:array1"
_SCRATCH_NQN = "nqn.2026-01.org.example:scratch"

_PORT = "4420"
_DISCOVERY_PORT = "8009"


def demo_node(
    kernel: str = "7.3",
    seed: int = 1,
    *,
    name: str = "",
    io_timeout: int = 30,
    timeouts: Timeouts | None = None,
) -> Node:
    """Make the demonstration's node: an array over two TCP paths, a scratch one over two of RDMA.

    The array has two namespaces in two ANA groups, each optimized on both paths; the
    scratch subsystem one namespace, round-robin. Each has a port of both cards, of which
    the first is cabled to one switch and the second to another.

    Args:
        kernel: a key of KERNELS.
        seed: of all randomness.
        name: makes the host's identity; always the same one when empty.
        io_timeout: ``nvme_core.io_timeout`` in seconds.
        timeouts: of every path. Default: a keep-alive of 5 s, and three minutes until a
            controller is given up: long enough for a fault, short enough to be watched.

    """
    node = Node(kernel, seed, name=name, io_timeout=io_timeout)
    array = node.add_subsystem(_ARRAY_NQN, serial="d3aea8ceca1d2d415893")
    database = node.add_namespace(array, 1, group=1, size_bytes=2 << 40)
    archive = node.add_namespace(array, 2, group=2, size_bytes=8 << 40)
    scratch = node.add_subsystem(_SCRATCH_NQN, iopolicy="round-robin", serial="5c4a7c1100d5e1f2")
    training = node.add_namespace(scratch, 1, size_bytes=4 << 40)
    for index, subsystem in ((0, array), (1, array), (2, scratch), (3, scratch)):
        transport = "tcp" if subsystem is array else "rdma"
        netdev = node.add_netdev(
            f"h{index}",
            f"10.0.{index}.1",
            rdma=f"mlx5_{index}",
            pci=_function(index % 2, index // 2),
            speed=100_000,
        )
        path = PathId(transport, f"10.0.{index}.2", _PORT, host_iface=netdev.name)
        node.add_path(subsystem, path, netdev, timeouts=timeouts or Timeouts(ctrl_loss=180))
    node.set_load(database, Load(queue_depth=4, rate=200))
    node.set_load(archive, Load(queue_depth=2, rate=40, read_share=0.2, request_bytes=1 << 17))
    node.set_load(training, Load(queue_depth=8, rate=300, read_share=0.95, request_bytes=1 << 16))
    return node


def array_node(
    kernel: str = "7.3",
    *,
    load: Load | None = None,
    iopolicy: str = "numa",
    transport: str = "tcp",
    timeouts: Timeouts | None = None,
    paths: int = 2,
) -> Node:
    """Make one subsystem with one namespace over paths of their own interfaces, for tests."""
    node = Node(kernel)
    array = node.add_subsystem(_ARRAY_NQN, iopolicy=iopolicy)
    namespace = node.add_namespace(array, 1)
    for index in range(paths):
        rdma = f"rxe{index}" if transport == "rdma" else ""
        netdev = node.add_netdev(f"h{index}", f"10.0.{index}.1", rdma=rdma)
        path = PathId(transport, f"10.0.{index}.2", _PORT)
        node.add_path(array, path, netdev, timeouts=timeouts)
    if load is not None:
        node.set_load(namespace, load)
    return node


def sized_node(size: str, kernel: str = "7.3", *, load: Load | None = None) -> Node:
    """Make a node of one of SIZES with ``load`` on every namespace.

    All over RDMA. The first paths of the subsystems, which carry the I/O under ``numa``, go
    round the ports; the paths of one subsystem are spread over the cards, of two ports each.

    Raises:
        ValueError: no such size.

    """
    if size not in SIZES:
        raise ValueError(f"size {size!r}: expected one of {', '.join(SIZES)}")
    subsystems, paths, namespaces, ports = SIZES[size]
    node = Node(kernel)
    netdevs = [
        node.add_netdev(
            f"eth{n}", f"10.{n}.0.1", rdma=f"mlx5_{n}", pci=_function(n // 2, n % 2), speed=400_000
        )
        for n in range(ports)
    ]
    for netdev in netdevs:
        netdev.vendor_counters = _VENDOR_COUNTERS
    for number in range(subsystems):
        subsystem = node.add_subsystem(f"{_ARRAY_NQN}-{number}")
        for nsid in range(1, namespaces + 1):
            node.add_namespace(subsystem, nsid, group=nsid)
        for index in range(paths):
            port = (number + index * ports // paths) % ports
            netdev = netdevs[port]
            address = f"10.{port}.1.{number + 1}"
            path = PathId("rdma", address, _PORT, host_iface=netdev.name)
            node.add_path(subsystem, path, netdev)
        for namespace in subsystem.namespaces:
            node.set_load(namespace, load)
    return node


def add_discovery(node: Node) -> None:
    """Add a persistent discovery controller over the first interface."""
    netdev = next(iter(node.netdevs.values()))
    subsystem = node.add_subsystem(DISCOVERY_NQN, model="Linux", discovery=True)
    path = PathId("tcp", netdev.address[:-1] + "2", _DISCOVERY_PORT)
    node.add_path(subsystem, path, netdev, timeouts=Timeouts(keep_alive=30, queues=1))


def _function(card: int, port: int) -> str:
    """Return the PCI function of a card's port."""
    return f"0000:{_BUSES[card]:02x}:00.{port}"
