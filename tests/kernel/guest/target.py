"""The kernel's own NVMe target (nvmet), driven through configfs: what a storage array does."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.kernel.guest.network import LINKS, target_side

__all__ = ["SERVICE", "BackingDisk", "Target"]

SERVICE = "4420"

_NVMET = Path("/sys/kernel/config/nvmet")
_NULLB = Path("/sys/kernel/config/nullb")
_IRQ_TIMER = "2"  # Documentation/block/null_blk.rst, "irqmode"
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class BackingDisk:
    """A RAM disk behind a namespace; every one of a size of its own."""

    name: str
    mebibytes: int

    @property
    def size_bytes(self) -> int:
        return self.mebibytes * _MEBIBYTE

    @classmethod
    def create(cls, number: int, latency_seconds: float = 0.0) -> BackingDisk:
        """Make null_blk disk ``number`` (from 1), which keeps what is written to it.

        With ``latency_seconds`` each request takes that long, whatever it is.
        """
        disk = cls(f"lab{number}", 48 + 16 * number)
        settings = _NULLB / disk.name
        settings.mkdir()
        _write(settings / "size", str(disk.mebibytes))
        _write(settings / "memory_backed", "1")
        if latency_seconds:
            _write(settings / "irqmode", _IRQ_TIMER)
            _write(settings / "completion_nsec", str(int(latency_seconds * 1e9)))
        _write(settings / "power", "1")
        return disk

    @property
    def device(self) -> Path:
        """The block device: newer kernels call it by its name, older ones by number."""
        named = Path("/dev") / self.name
        number = (_NULLB / self.name / "index").read_text().strip()
        return named if named.exists() else Path(f"/dev/nullb{number}")


class Target:
    """One subsystem of ``nqn``, namespace N on disk N in ANA group N, behind a port per link.

    Port N listens on link N. Ports are torn down with the subsystem, so the next
    one may use the same addresses over another transport.
    """

    def __init__(
        self,
        nqn: str,
        disks: list[BackingDisk],
        transport: str = "tcp",
        links: tuple[int, ...] = LINKS,
    ) -> None:
        self.nqn = nqn
        self.transport = transport
        self.groups = range(1, len(disks) + 1)
        self._subsystem = _NVMET / "subsystems" / nqn
        self._subsystem.mkdir()
        _write(self._subsystem / "attr_allow_any_host", "1")
        _write(self._subsystem / "attr_model", "Lab Array")
        for nsid, disk in zip(self.groups, disks, strict=True):
            self._add_namespace(nsid, disk)
        self._ports = links if transport != "loop" else links[:1]
        for link in self._ports:
            self._add_port(link)
            self.open_port(link)

    def address(self, link: int) -> str:
        """Where port ``link`` listens. Soft-RoCE of old kernels knows the first namespace only."""
        return f"10.0.{link}.2" if self.transport == "tcp" else f"10.1.{link}.1"

    def open_port(self, link: int) -> None:
        """Serve the subsystem on port ``link``."""
        with target_side() if self.transport == "tcp" else nullcontext():
            self._served(link).symlink_to(self._subsystem)

    def close_port(self, link: int) -> None:
        """Stop listening on port ``link`` and break its connections."""
        self._served(link).unlink()

    def set_ana(self, link: int, state: str, group: int | None = None) -> None:
        """Give ``group``, or every one, the ANA ``state`` on port ``link``."""
        for each in [group] if group else self.groups:
            _write(_port(link) / "ana_groups" / str(each) / "ana_state", state)

    def remove(self) -> None:
        """Take the ports and the subsystem away, whatever state they are in."""
        for link in self._ports:
            self._served(link).unlink(missing_ok=True)
            for group in self.groups[1:]:
                (_port(link) / "ana_groups" / str(group)).rmdir()
            _port(link).rmdir()
        for namespace in (self._subsystem / "namespaces").iterdir():
            namespace.rmdir()
        self._subsystem.rmdir()

    def _served(self, link: int) -> Path:
        return _port(link) / "subsystems" / self.nqn

    def _add_namespace(self, nsid: int, disk: BackingDisk) -> None:
        namespace = self._subsystem / "namespaces" / str(nsid)
        namespace.mkdir()
        _write(namespace / "device_path", str(disk.device))
        _write(namespace / "ana_grpid", str(nsid))
        _write(namespace / "enable", "1")

    def _add_port(self, link: int) -> None:
        _port(link).mkdir()
        _write(_port(link) / "addr_trtype", self.transport)
        if self.transport != "loop":
            _write(_port(link) / "addr_adrfam", "ipv4")
            _write(_port(link) / "addr_traddr", self.address(link))
            _write(_port(link) / "addr_trsvcid", SERVICE)
        for group in self.groups[1:]:
            (_port(link) / "ana_groups" / str(group)).mkdir()
        self.set_ana(link, "optimized")


def _port(link: int) -> Path:
    return _NVMET / "ports" / str(link)


def _write(path: Path, text: str) -> None:
    # configfs takes a value in one write, and no newline in addresses and paths.
    path.write_text(text)
