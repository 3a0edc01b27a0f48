"""What a scenario works with: links, disks, the exporter, the kernel log, a place for results."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from tests.kernel.guest import initiator, network
from tests.kernel.guest.exporter import Exporter
from tests.kernel.guest.fabric import Fabric, FabricSettings
from tests.kernel.guest.load import Fio, LoadSettings
from tests.kernel.guest.logs import KernelLog
from tests.kernel.guest.target import BackingDisk, Target
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Lab", "load_modules", "module_exists", "unload_modules"]

_NQN = "nqn.2014-08.org.nvmexpress:lab"
_DISKS = 4


class Lab:
    """Made once per boot. Parts are built when first used, so a scenario pays for what it needs."""

    def __init__(self, output: Path) -> None:
        self.kernel = platform.release()
        self.output = output
        self.kernel_log = KernelLog()
        self._subsystems = 0
        self._slow_disks: list[BackingDisk] = []

    def scenario_directory(self, name: str) -> Path:
        """Where the artefacts of scenario ``name`` belong."""
        directory = self.output / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def fabric(self, settings: FabricSettings | None = None) -> Fabric:
        """A subsystem with an NQN of its own, hence with counters that begin at zero."""
        chosen = settings or FabricSettings()
        if chosen.transport == "rdma":
            self._rdma  # noqa: B018 - built by being asked for
        self._subsystems += 1
        nqn = f"{_NQN}-{self._subsystems}"
        black_hole = self.black_hole
        if len(chosen.links) > len(network.LINKS):
            self._third_link  # noqa: B018 - built by being asked for
        return Fabric(nqn, chosen, self._disks_of(chosen), black_hole)

    @contextmanager
    def load(self, fabric: Fabric, name: str) -> Iterator[Fio]:
        """Fio on every disk of ``fabric``, once every path carries requests, until the end."""
        before = {link: path.completed() for link, path in fabric.paths.items()}
        load = Fio(fabric.heads(), LoadSettings("randrw"), self.scenario_directory(name))
        try:
            await_(
                lambda: all(fabric.paths[link].completed() > before[link] for link in before),
                20,
                "requests on every path",
            )
            yield load
            load.stop()
        finally:
            load.kill()

    @cached_property
    def iopolicies(self) -> list[str]:
        """The I/O policies of this kernel, as the driver's parameter describes them."""
        load_modules("nvme_core")
        described = subprocess.run(
            ["modinfo", "--field", "parm", "nvme_core"], capture_output=True, text=True, check=True
        ).stdout
        return [name for name in ("numa", "round-robin", "queue-depth") if name in described]

    @cached_property
    def exporter(self) -> Exporter:
        """The exporter under test, started when first asked for."""
        return Exporter(self.output, record=bool(os.environ.get("LAB_RECORD")))

    @cached_property
    def disks(self) -> list[BackingDisk]:
        """The RAM disks behind the namespaces."""
        load_modules("nvmet", "null_blk nr_devices=0")
        return [BackingDisk.create(number) for number in range(1, _DISKS + 1)]

    def _disks_of(self, settings: FabricSettings) -> list[BackingDisk]:
        disks = self.disks
        if not settings.slow_seconds:
            return disks
        first = len(disks) + len(self._slow_disks) + 1
        made = [
            BackingDisk.create(number, settings.slow_seconds)
            for number in range(first, first + settings.namespaces)
        ]
        self._slow_disks += made
        return made

    @cached_property
    def black_hole(self) -> network.BlackHole:
        """Also brings the TCP links and both ends' drivers into being."""
        load_modules("veth", "nvmet-tcp", "nvme-tcp", "nf_tables")
        network.create_target_side()
        network.create_tcp_links(*network.LINKS)
        return network.BlackHole()

    @cached_property
    def _third_link(self) -> bool:
        network.create_tcp_links(3)
        return True

    @contextmanager
    def loop_controller(self) -> Iterator[None]:
        """A controller of the loop transport, which needs a port without an address."""
        target = Target(f"{_NQN}-loop", self.disks[:2], "loop")
        controller = initiator.FabricPath(initiator.connect(target.nqn, "loop"), 0)
        try:
            yield
        finally:
            controller.disconnect()
            target.remove()

    @cached_property
    def _rdma(self) -> bool:
        load_modules("veth", "rdma_rxe", "nvmet-rdma", "nvme-rdma")
        network.create_rdma_links()
        return True


def load_modules(*modules: str) -> None:
    """Load each of ``modules``, given with its parameters if any; raises CalledProcessError."""
    for module in modules:
        subprocess.run(["modprobe", *module.split()], check=True)


def module_exists(module: str) -> bool:
    """Whether this kernel was built with ``module``."""
    query = ["modinfo", "--field", "filename", module]
    return subprocess.run(query, capture_output=True, check=False).returncode == 0


def unload_modules(*modules: str) -> None:
    """Unload each of ``modules``; raises CalledProcessError where one is in use."""
    subprocess.run(["modprobe", "--remove", *modules], check=True)
