"""Files as sysfs would have them: rewritten in place, so that kept descriptors see the new content.

A reader may read at any moment: each change is one ``pwrite``, padded with NULs
to the longer of old and new (readers take those for padding), then cut to length.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Directory", "File", "link", "make"]


class File:
    """One file that is only ever rewritten in place; made by someone else, with ``content``."""

    __slots__ = ("_content", "path")

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self._content = content

    def write(self, content: bytes) -> None:
        """Replace the content, should it differ."""
        old = self._content
        if content == old:
            return
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, content.ljust(len(old), b"\0"), 0)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)
        self._content = content


class Directory:
    """A device's directory: made whole elsewhere, then moved to its place.

    Args:
        path: its place.
        workshop: a directory on the same file system, where it is made.
        files: contents by relative name.
        links: targets by relative name.

    """

    def __init__(
        self,
        path: Path,
        workshop: Path,
        files: Mapping[str, bytes],
        links: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        made = workshop / path.name
        for parent in {(made / name).parent for name in files} | {made}:
            parent.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (made / name).write_bytes(content)
        for name, target in (links or {}).items():
            (made / name).symlink_to(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        made.rename(path)
        self._files = {name: File(path / name, content) for name, content in files.items()}

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Bring files up to date.

        Raises:
            KeyError: the directory was made without such a file.

        """
        for name, content in contents.items():
            self._files[name].write(content)

    def vanish(self, telling: tuple[str, ...]) -> None:
        """Empty the files ``telling``, where they are, and remove the directory.

        The kernel answers ENODEV on a descriptor that outlives its device; here
        the empty file says so.
        """
        for name in telling:
            if name in self._files:
                self._files[name].write(b"")
        shutil.rmtree(self.path)


def make(path: Path, content: bytes) -> File:
    """Make a file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return File(path, content)


def link(path: Path, target: str) -> Path:
    """Make a symbolic link, and the directories above it; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path
