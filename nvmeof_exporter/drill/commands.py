"""The commands that cause and undo the fault: the user's, run by a shell, waited for by nobody.

The drill goes on watching meanwhile, so a command is asked now and then whether it is over.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

__all__ = ["Command"]

#: Of what a command says, so much (bytes) is told when it failed.
_TOLD_BYTES = 400


class Command:
    """A command that was started; it runs in a session of its own, so that ^C does not reach it.

    Args:
        text: what the shell is given.
        now: the time, monotonic seconds.
        patience: how long it may take, seconds.

    Raises:
        OSError: there is no shell.

    """

    def __init__(self, text: str, now: float, patience: float) -> None:
        self._patience = patience
        self._deadline = now + patience
        # In memory: whatever disks stand still.
        self._output: IO[bytes] = os.fdopen(os.memfd_create("drill-command"), "w+b")
        self._process = subprocess.Popen(  # noqa: S602  # a shell's line is what was asked for
            text,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def problem(self, now: float) -> str | None:
        """Return what went wrong, ``""`` for nothing; None while it runs."""
        status = self._process.poll()
        if status is None:
            if now < self._deadline:
                return None
            self.kill()
            return f"it took longer than {self._patience:g} s"
        if status == 0:
            return ""
        how = f"status {status}" if status > 0 else f"signal {-status}"
        said = self._said()
        return f"it ended with {how}" + (f": {said}" if said else "")

    def kill(self) -> None:
        """End it, and what it has started, where it still runs."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """Give back what is kept of it, after its end."""
        self._output.close()

    def _said(self) -> str:
        """The last of what it said, in one line."""
        end = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(end - _TOLD_BYTES, 0))
        return " ".join(self._output.read().decode(errors="replace").split())
