from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import TYPE_CHECKING

from nvmeof_exporter.allocator import spare_memory

if TYPE_CHECKING:
    import pytest

#: Makes a large block in a thread, frees it, and tells what is kept of it: by default glibc
#: learns from the first such block to keep the next ones.
_PROGRAM = """
import threading
from pathlib import Path
from nvmeof_exporter.allocator import spare_memory

def resident():
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096

spare_memory()
before = resident()
for _ in range(8):
    done = threading.Barrier(2)
    def make():
        for size in (1, 2, 4, 8, 16):
            blocks = [bytes(b"x" * (size << 20)), b"y" * 1000]
            del blocks[0]
        done.wait()
    threading.Thread(target=make).start()
    done.wait()
print(resident() - before)
"""


def test_large_blocks_are_given_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 4 << 20


def test_a_c_library_without_such_advice_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    spare_memory()
