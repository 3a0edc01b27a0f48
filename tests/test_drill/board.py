"""A make-believe machine whose directory lies on a make-believe namespace, for whole drills.

The load is real and goes to a real directory; the paths are files, which the fault and its
undoing write, as ``/sys`` would show it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

from tests.fixtures.node_files import NodeFiles

__all__ = ["NQN", "A", "B", "DrillBoard", "FakeBlock"]

NQN = "nqn.2026-01.org.example:array"
A, B = "tcp:10.0.0.2:4420", "tcp:10.0.1.2:4420"

_NODE = f"""
parameter multipath=Y
default controller kato=5 ctrl_loss_tmo=600
subsystem nvme-subsys0 subsysnqn={NQN} iopolicy=round-robin
controller nvme0 in nvme-subsys0 transport=tcp state=live address=traddr=10.0.0.2,trsvcid=4420
controller nvme1 in nvme-subsys0 transport=tcp state=live address=traddr=10.0.1.2,trsvcid=4420
path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized
path nvme0c1n1 of nvme1 nsid=1 ana_state=optimized
head nvme0n1 in nvme-subsys0 nsid=1 size=131072
"""

_STEP = 0.02
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # mkdtemp makes a private directory in it


class DrillBoard:
    """The machine: ``sysfs`` and ``procfs``, and the directory ``target`` on its namespace.

    While it is started, every path that is live is shown to move data. The directory is in
    memory: how busy this machine's disks are must not decide a drill.
    """

    def __init__(self, root: Path) -> None:
        self.target = Path(tempfile.mkdtemp(prefix="drill-board-", dir=_SHARED_MEMORY))
        node = NodeFiles(_NODE, root / "sys")
        self.sysfs, self.procfs = root / "sys", root / "proc"
        self._states = [node.place(f"nvme{number}") / "state" for number in (0, 1)]
        self._stats = [node.place(f"nvme0c{number}n1") / "stat" for number in (0, 1)]
        found = os.stat(self.target).st_dev
        number = f"{os.major(found)}:{os.minor(found)}"
        (self.sysfs / "dev/block").mkdir(parents=True)
        (self.sysfs / "dev/block" / number).symlink_to(node.place("nvme0n1"))
        (self.sysfs / "dev/block/259:1").symlink_to(node.place("nvme0n1"))
        (self.procfs / "self").mkdir(parents=True)
        (self.procfs / "self/mountinfo").write_text(
            f"30 1 {number} / / rw shared:1 - ext4 /dev/nvme0n1 rw\n"
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        """Let data move."""
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._ending.set()
        self._thread.join()
        shutil.rmtree(self.target)

    @property
    def cut(self) -> str:
        """The command that takes path A away."""
        return f"printf 'connecting\\n' > {self._states[0]}"

    @property
    def mend(self) -> str:
        """The command that brings it back."""
        return f"printf 'live\\n' > {self._states[0]}"

    def _live(self) -> None:
        moved = [0, 0]
        while not self._ending.wait(_STEP):
            for index, (state, stat) in enumerate(zip(self._states, self._stats, strict=True)):
                if state.read_text() == "live\n":
                    moved[index] += 1
                    count = moved[index]
                    text = f"{count} 0 {count * 8} {count} 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                    # In one write: a reader may come at any time.
                    descriptor = os.open(stat, os.O_WRONLY)
                    os.pwrite(descriptor, text.encode(), 0)
                    os.close(descriptor)


class FakeBlock:
    """os.stat, for which a file is a block device."""

    def __init__(self, path: Path, number: tuple[int, int]) -> None:
        self.path = str(path)
        self.number = os.makedev(*number)
        self.real = os.stat

    def __call__(self, path: str, **named: bool) -> os.stat_result:
        found = self.real(path, **named)
        if path != self.path:
            return found
        fields = list(found)
        fields[0] = 0o060600
        return os.stat_result(fields, {"st_rdev": self.number})
