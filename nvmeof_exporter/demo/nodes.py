"""Ready-made nodes: the demonstration's, and sizes for load tests."""

from __future__ import annotations

from nvmeof_exporter.demo.devices import Timeouts
from nvmeof_exporter.demo.load import Load
from nvmeof_exporter.demo.simulation import DISCOVERY_NQN, Node
from nvmeof_exporter.model import PathId

__all__ = ["SIZES", "array_node", "demo_node", "sized_node"]

#: Subsystems, paths of each, namespaces of each.
SIZES = {"small": (1, 2, 2), "gpu-node": (8, 4, 4), "large": (64, 8, 4)}

_ARRAY_NQN = "nqn.2026-01.org.example:array1"
_SCRATCH_NQN = "nqn.2026-01.org.example:scratch"

_PORT = "4420"
_DISCOVERY_PORT = "8009"


def demo_node(kernel: str = "7.3", seed: int = 1) -> Node:
    """Make the demonstration's node: an array over two TCP paths, a scratch one over two of RDMA.

    The array (keep-alive 5 s) has two namespaces in two ANA groups, each optimized
    on both paths; the scratch subsystem one namespace, round-robin, keep-alive 5 s.
    """
    node = Node(kernel, seed)
    array = node.add_subsystem(_ARRAY_NQN, serial="d3aea8ceca1d2d415893")
    database = node.add_namespace(array, 1, group=1, size_bytes=2 << 40)
    archive = node.add_namespace(array, 2, group=2, size_bytes=8 << 40)
    scratch = node.add_subsystem(_SCRATCH_NQN, iopolicy="round-robin", serial="5c4a7c1100d5e1f2")
    training = node.add_namespace(scratch, 1, size_bytes=4 << 40)
    for index, subsystem in ((0, array), (1, array), (2, scratch), (3, scratch)):
        transport = "tcp" if subsystem is array else "rdma"
        rdma = f"rxe{index - 2}" if subsystem is scratch else ""
        netdev = node.add_netdev(f"h{index}", f"10.0.{index}.1", rdma=rdma)
        path = PathId(transport, f"10.0.{index}.2", _PORT, host_iface=netdev.name)
        # Three minutes: long enough for every fault of the script, short enough to be watched.
        node.add_path(subsystem, path, netdev, timeouts=Timeouts(ctrl_loss=180))
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

    Raises:
        ValueError: no such size.

    """
    if size not in SIZES:
        raise ValueError(f"size {size!r}: expected one of {', '.join(SIZES)}")
    subsystems, paths, namespaces = SIZES[size]
    node = Node(kernel)
    netdevs = [node.add_netdev(f"eth{n}", f"10.{n}.0.1") for n in range(paths)]
    for number in range(subsystems):
        subsystem = node.add_subsystem(f"{_ARRAY_NQN}-{number}")
        for nsid in range(1, namespaces + 1):
            node.add_namespace(subsystem, nsid, group=nsid)
        for index, netdev in enumerate(netdevs):
            path = PathId("tcp", f"10.{index}.1.{number + 1}", _PORT, host_iface=netdev.name)
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
