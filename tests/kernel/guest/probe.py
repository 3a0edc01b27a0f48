"""An application of one request at a time that, unlike fio's log, also times those that fail.

``python -m tests.kernel.guest.probe DISK PATTERN FILE`` reads (``randread``) or writes
(``randwrite``) until a request fails or SIGINT comes, and leaves its slowest requests in
FILE: a JSON list of ``[seconds, end, failed]``, the end on the monotonic clock.
"""

from __future__ import annotations

import heapq
import json
import mmap
import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KEPT", "main"]

#: Slowest requests that a record tells of.
KEPT = 40

_BLOCK = 4096
_SPAN_BLOCKS = 8192  # 32 MiB, as fio's


def main(disk: str, pattern: str, file: str) -> None:
    """Do requests on ``disk`` until one fails or SIGINT comes; then write ``file``."""
    stopping: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: stopping.append(number))
    slowest: list[tuple[float, float, bool]] = []
    for seconds, end, failed in _requests(disk, write=pattern == "randwrite"):
        heapq.heappush(slowest, (seconds, end, failed))
        if len(slowest) > KEPT:
            heapq.heappop(slowest)
        if failed or stopping:
            break
    Path(file).write_text(json.dumps(slowest))


def _requests(disk: str, *, write: bool) -> Iterator[tuple[float, float, bool]]:
    """Time one request after the other, each past the page cache."""
    chance = random.Random(1)
    buffer = mmap.mmap(-1, _BLOCK)
    device = os.open(f"/dev/{disk}", os.O_RDWR | os.O_DIRECT)
    do = os.pwritev if write else os.preadv
    for _ in count():
        offset = chance.randrange(_SPAN_BLOCKS) * _BLOCK
        started = time.monotonic()
        try:
            failed = do(device, [buffer], offset) != _BLOCK
        except OSError:
            failed = True
        end = time.monotonic()
        yield end - started, end, failed


if __name__ == "__main__":
    main(*sys.argv[1:])
