"""One throw-away virtual machine: booted, awaited with a deadline, never left behind."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kernel.lab import initrd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kernel.lab.kernels import Kernel

__all__ = ["CHECKOUT", "Machine", "MachineError", "missing_packages"]

CHECKOUT = Path(__file__).resolve().parents[3]

#: Programs that the lab runs, on the host or in the guest, and the Debian package of each.
_PROGRAMS = {
    "apt-get": "apt",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "ethtool": "ethtool",
    "fio": "fio",
    "ip": "iproute2",
    "modprobe": "kmod",
    "nft": "nftables",
    "nvme": "nvme-cli",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "qemu-system-x86_64": "qemu-system-x86",
    "strip": "dpkg-dev",
    "systemd-analyze": "systemd",
}
_SEARCH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off random.trust_cpu=on"

#: Emulation alone: a /dev/kvm that opens may still be unable to run a guest, and only an
#: emulator can count. Each instruction takes one nanosecond of the guest's time (shift=0, the
#: fastest there is), and time without any instruction to run is skipped up to the next timer
#: (sleep=off). So every clock in the guest agrees with what the guest has done, however busy
#: this machine is. One processor, since only one can be counted on.
_VIRTUAL_TIME = (
    *("-accel", "tcg,thread=single", "-smp", "1"),
    *("-icount", "shift=0,sleep=off,align=off"),
)

_TAIL = 60  # lines of a log that a failure report shows


class MachineError(RuntimeError):
    """The machine did not come to its end; carries the ends of its logs."""


def missing_packages() -> list[str]:
    """Debian packages that the lab needs and this machine lacks."""
    absent = {p for name, p in _PROGRAMS.items() if not shutil.which(name, path=_SEARCH)}
    return sorted(absent)


@dataclass
class Machine:
    """A guest of ``kernel`` that leaves what it has to say in ``output``.

    ``devices`` are further QEMU arguments and ``kernel_arguments`` the kernel's;
    ``deadline`` is in seconds for the whole run; ``environment`` reaches the
    guest's first process.
    """

    kernel: Kernel
    output: Path
    environment: Mapping[str, str]
    deadline: float
    devices: tuple[str, ...] = ()
    kernel_arguments: str = ""
    memory_mib: int = 1536
    seconds: float = field(default=0.0, init=False)

    def run(self) -> None:
        """Boot, wait for power-off, and raise MachineError if the guest did not finish."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(parents=True)
        self._describe_run()
        image = self.output / "initrd.gz"
        initrd.build(self.kernel, Path(_program("busybox")), image)
        started = time.monotonic()
        try:
            self._boot(image)
        finally:
            image.unlink()
            self.seconds = time.monotonic() - started
        if not (self.output / "finished").exists():
            raise MachineError(self.report("the guest ended before its scenarios did"))

    def report(self, reason: str) -> str:
        """``reason`` and the ends of the guest's own log and of its console."""
        parts = [f"kernel {self.kernel.release}: {reason} ({self.seconds:.0f} s, {self.output})"]
        for name in ("run.log", "console.log"):
            log = self.output / name
            if log.exists():
                lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
                parts.append("\n".join([f"--- end of {name}", *lines]))
        return "\n".join(parts)

    def _boot(self, image: Path) -> None:
        with subprocess.Popen(self._command(image), stdin=subprocess.DEVNULL) as qemu:
            try:
                status = qemu.wait(self.deadline)
            except subprocess.TimeoutExpired:
                raise MachineError(self.report(f"not done in {self.deadline:.0f} s")) from None
            finally:
                qemu.kill()
        if status:
            raise MachineError(self.report(f"qemu ended with status {status}"))

    def _describe_run(self) -> None:
        settings = {
            "LAB_CHECKOUT": str(CHECKOUT),
            "LAB_MODULES": str(self.kernel.modules),
            "LAB_OUTPUT": str(self.output),
            "LAB_PYTHON": sys.executable,
            **self.environment,
        }
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()]
        (self.output / "boot.env").write_text("".join(lines))

    def _command(self, image: Path) -> list[str]:
        # A kernel panic ends the run.
        share = "security_model=none,multidevs=remap"
        return [
            # Virtual time can wait for what else has to run here in real time.
            *("nice", "-n", "10"),
            _program("qemu-system-x86_64"),
            *("-machine", "q35", *_VIRTUAL_TIME, "-cpu", "max"),
            *("-m", str(self.memory_mib)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-kernel", str(self.kernel.image), "-initrd", str(image)),
            "-append",
            f"{_KERNEL_ARGUMENTS} {self.kernel_arguments}",
            *("-serial", f"file:{self.output / 'console.log'}"),
            *("-virtfs", f"local,path=/,mount_tag=host,readonly=on,{share}"),
            *("-virtfs", f"local,path={self.output},mount_tag=output,{share}"),
            *self.devices,
        ]


def _program(name: str) -> str:
    found = shutil.which(name, path=_SEARCH)
    if not found:
        raise MachineError(f"{name} is not installed (Debian package {_PROGRAMS[name]})")
    return found
