"""The NVMe host side: connecting through /dev/nvme-fabrics, and looking at what came of it."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.guest.target import SERVICE

__all__ = [
    "HOST_ID",
    "HOST_NQN",
    "ConnectOptions",
    "FabricPath",
    "connect",
    "heads",
    "reset",
    "subsystem_of",
]

HOST_ID = "4a6f6c6c-7950-6174-6873-000000000001"
HOST_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{HOST_ID}"

_CONTROLLERS = Path("/sys/class/nvme")
_NVME_IOCTL_RESET = 0x4E44  # linux/nvme_ioctl.h
_SUBSYSTEMS = Path("/sys/class/nvme-subsystem")


@dataclass(frozen=True)
class ConnectOptions:
    """What is given at connect time, in seconds; None leaves the kernel's default."""

    keep_alive: int = 5
    reconnect_delay: int = 1
    ctrl_loss: int = 600
    fast_io_fail: int | None = None

    def __str__(self) -> str:
        text = (
            f"keep_alive_tmo={self.keep_alive},reconnect_delay={self.reconnect_delay},"
            f"ctrl_loss_tmo={self.ctrl_loss}"
        )
        if self.fast_io_fail is not None:
            text += f",fast_io_fail_tmo={self.fast_io_fail}"
        return text


def connect(
    nqn: str, transport: str, address: str = "", options: ConnectOptions | None = None
) -> str:
    """Connect one controller and return its name; nvme-cli does the same, only slower."""
    text = f"nqn={nqn},transport={transport},hostnqn={HOST_NQN},hostid={HOST_ID}"
    if address:
        text += f",traddr={address},trsvcid={SERVICE}"
    if options:
        text += f",{options}"
    fabrics = os.open("/dev/nvme-fabrics", os.O_RDWR)
    try:
        os.write(fabrics, text.encode())
        answer = os.read(fabrics, 256).decode()
    finally:
        os.close(fabrics)
    instance = dict(part.split("=") for part in answer.strip().split(","))["instance"]
    return f"nvme{instance}"


def reset(controller: str) -> None:
    """Reset ``controller`` as ``nvme reset`` does, and return when that is done."""
    device = os.open(f"/dev/{controller}", os.O_RDONLY)
    try:
        fcntl.ioctl(device, _NVME_IOCTL_RESET)
    finally:
        os.close(device)


class FabricPath:
    """One controller of a subsystem and the namespace paths over it."""

    def __init__(self, controller: str, link: int) -> None:
        self.controller = controller
        self.link = link

    @property
    def directory(self) -> Path:
        return _CONTROLLERS / self.controller

    @property
    def state(self) -> str:
        """The kernel's word for it, or ``gone``."""
        return _text(self.directory / "state") or "gone"

    def ana_states(self) -> list[str]:
        """The ANA state of every namespace path, in order of device name."""
        return [_text(file) for file in sorted(self.directory.glob("nvme*/ana_state"))]

    def completed(self) -> int:
        """Requests ended on this path, over all its namespaces; 0 when it is gone."""
        return sum(int(stat[0]) + int(stat[4]) for stat in self._stats())

    def in_flight(self) -> int:
        """Requests outstanding on this path now; 0 when it is gone."""
        return sum(int(stat[8]) for stat in self._stats())

    def disks(self) -> list[str]:
        """Names of the controller's own block devices, hidden or not."""
        return sorted(file.parent.name for file in self.directory.glob("nvme*n*/stat"))

    def disconnect(self) -> None:
        """Delete the controller, unless it has gone by itself."""
        try:
            (self.directory / "delete_controller").write_text("1")
        except OSError:
            if self.directory.exists():
                raise

    def _stats(self) -> list[list[str]]:
        texts = map(_text, self.directory.glob("nvme*n*/stat"))
        return [text.split() for text in texts if text]


def _text(file: Path) -> str:
    """What ``file`` says; nothing once its device is gone."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def subsystem_of(nqn: str) -> Path | None:
    """The subsystem directory of ``nqn``, or None."""
    for directory in _SUBSYSTEMS.glob("nvme-subsys*"):
        if (directory / "subsysnqn").read_text().strip() == nqn:
            return directory
    return None


def heads(nqn: str) -> list[str]:
    """The disks that applications open, in order of namespace ID."""
    subsystem = subsystem_of(nqn)
    if not subsystem:
        return []
    found = {}
    for file in subsystem.glob("nvme*n*/nsid"):
        found[int(file.read_text())] = file.parent.name
    return [found[nsid] for nsid in sorted(found)]
