"""Takes the tree: files, links and directories as ``plan`` says, while it changes."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.capture import plan
from nvmeof_exporter.capture.entry import Entry
from nvmeof_exporter.capture.reading import NoAnswerError
from nvmeof_exporter.sources.reader import FORBIDDEN, errno_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.capture.plan import Kind

__all__ = ["Tree", "capture_tree"]

#: Bounds for a tree gone wild; a node with a thousand paths has a tenth of it.
_MOST_ENTRIES = 200_000
_MOST_BYTES = 48 << 20

#: A node that runs containers has an interface for each: those with hardware come first.
_MOST_INTERFACES = 512

#: A device that went away, or a file that did: no more than a change.
_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENXIO, errno.ESTALE})

#: What a number of a table that is not in use answers: an error, or a GID of zeros.
_UNUSED = _GONE | {errno.EINVAL}
_UNSET_GID = b"0:\n"


class Tree(NamedTuple):
    """What was taken, and a line for everything that could not be."""

    entries: tuple[Entry, ...]
    missing: tuple[str, ...]


class _FullError(Exception):
    """The bundle holds as much as it may."""


def capture_tree(root: str, read: Callable[[str], bytes]) -> Tree:
    """Take the tree below ``root``, a directory like ``/sys``.

    A file that answers with an error becomes an empty *directory*: reading it fails as it
    did on the node. Were it left out, an exporter would take it for one that this kernel
    does not have; were it empty, for a text without content.

    Args:
        root: the tree.
        read: returns a file's content, or raises OSError (NoAnswerError: it hangs).

    """
    taker = _Taker(os.path.realpath(root), read)
    try:
        taker.take()
    except _FullError:
        taker.missing.append("the rest: the bundle would have become too large")
    return Tree(tuple(taker.entries[name] for name in sorted(taker.entries)), tuple(taker.missing))


class _Taker:
    def __init__(self, root: str, read: Callable[[str], bytes]) -> None:
        self._root = root
        self._read = read
        self._bytes = 0
        self._seen: set[str] = set()
        self.entries: dict[str, Entry] = {}
        self.missing: list[str] = []

    def take(self) -> None:
        for group, pattern, kind in plan.GROUPS:
            names = [name for name in self._names(group) if re.fullmatch(pattern, name)]
            if group == "class/net":
                names = self._interfaces(group, names)
            if names or os.path.isdir(self._at(group)):
                self._add_directory(group)
            for name in names:
                self._take(f"{group}/{name}", kind)
        for module in self._names("module"):
            place = f"module/{module}"
            if plan.PARAMETERS.fullmatch(module):
                self._contents(f"{place}/parameters", plan.Kind(files=re.compile(".+")))
            if plan.MODULES.fullmatch(module):
                self._file(f"{place}/version")

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _names(self, name: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(name)))
        except OSError as error:
            if error.errno not in _GONE:
                self.missing.append(f"{errno_name(error)} {name}")
            return []

    def _interfaces(self, group: str, names: list[str]) -> list[str]:
        """Choose the interfaces: those with hardware, those that others carry, then the rest."""

        def rank(name: str) -> int:
            entries = self._names(f"{group}/{name}")
            if "device" in entries:
                return 0
            return 1 if any(entry.startswith("lower_") for entry in entries) else 2

        if len(names) <= _MOST_INTERFACES:
            return names
        chosen = sorted(names, key=rank)[:_MOST_INTERFACES]
        self.missing.append(f"{len(names) - len(chosen)} more interfaces {group}")
        return chosen

    def _take(self, name: str, kind: Kind) -> None:
        """Take a device, or the link to it and the device itself."""
        try:
            status = os.lstat(self._at(name))
        except OSError:
            return
        if stat.S_ISLNK(status.st_mode):
            self._link(name, kind)
        elif stat.S_ISDIR(status.st_mode):
            self._contents(name, kind)

    def _link(self, name: str, kind: Kind | None) -> None:
        """Keep a link that stays in the tree; what it leads to is taken as ``kind``."""
        try:
            target = os.readlink(self._at(name))
        except OSError:
            return
        place = os.path.realpath(self._at(name))
        if os.path.isabs(target) or not place.startswith(f"{self._root}/"):
            self.missing.append(f"leads out of the tree {name}")
            return
        self._add(Entry(name, "l", os.fsencode(target)))
        if kind is not None and os.path.isdir(place):
            self._contents(place.removeprefix(f"{self._root}/"), kind)

    def _contents(self, name: str, kind: Kind) -> None:
        if name in self._seen or not os.path.isdir(self._at(name)):
            return
        self._seen.add(name)
        self._add_directory(name)
        try:
            with os.scandir(self._at(name)) as listing:
                children = sorted(listing, key=lambda child: child.name)
        except OSError as error:
            if error.errno not in _GONE:
                self.missing.append(f"{errno_name(error)} {name}")
            return
        for child in children:
            place = f"{name}/{child.name}"
            if child.is_symlink():
                kept, leads_to = kind.link(child.name)
                if kept:
                    self._link(place, leads_to)
            elif child.is_dir(follow_symlinks=False):
                below = kind.directory(child.name)
                if below is not None:
                    self._contents(place, below)
            elif kind.files is not None and kind.files.fullmatch(child.name):
                self._file(place, indexed=kind.indexed)

    def _file(self, name: str, *, indexed: bool = False) -> None:
        if name.rpartition("/")[2] in FORBIDDEN:
            return
        try:
            content = self._read(self._at(name))
        except NoAnswerError as error:
            self.missing.append(f"{error} {name}")
        except OSError as error:
            if error.errno in (_UNUSED if indexed else _GONE):
                return
            self.missing.append(f"{errno_name(error)} {name}")
        else:
            if not (indexed and not content.strip(_UNSET_GID)):
                self._add(Entry(name, "f", content))
            return
        self._add(Entry(name, "d"))

    def _add_directory(self, name: str) -> None:
        if name not in self.entries:
            parent = name.rpartition("/")[0]
            if parent:
                self._add_directory(parent)
            self._add(Entry(name, "d"))

    def _add(self, entry: Entry) -> None:
        self._bytes += len(entry.content)
        if len(self.entries) >= _MOST_ENTRIES or self._bytes > _MOST_BYTES:
            raise _FullError
        parent = entry.name.rpartition("/")[0]
        if parent:
            self._add_directory(parent)
        self.entries[entry.name] = entry
