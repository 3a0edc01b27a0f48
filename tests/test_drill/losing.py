"""A file system that loses what was not synchronized, as far as the standard lets it.

POSIX promises nothing of what was not synchronized: of a file's writes any may be
there, cut off at any byte or as zeros; of a directory's changes any may be there, whatever
is there of the others. Synchronizing a file says nothing of its name. ``crash`` lays out on
a real file system one of the many states that a loss of power may leave.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.drill.files import Block, Files, Output

__all__ = ["CARELESS", "LosingFiles", "Luck", "PowerCut"]


class PowerCut(Exception):  # noqa: N818 - it is what happens, no mistake
    """The power is gone."""


class Luck(Protocol):
    """What becomes of what was not synchronized."""

    def kept(self, most: int) -> int:
        """How much of something survives, 0 to ``most``."""


@dataclass(eq=False)
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(eq=False)
class _Directory:
    entries: dict[str, _File | _Directory] = field(default_factory=dict)
    durable: dict[str, _File | _Directory] = field(default_factory=dict)
    #: Changes in their order: names that go, and names that come.
    pending: list[tuple[str | None, str | None, _File | _Directory]] = field(default_factory=list)

    def change(self, gone: str | None, new: str | None, what: _File | _Directory) -> None:
        _apply(self.entries, gone, new, what)
        self.pending.append((gone, new, what))


def _apply(
    entries: dict[str, _File | _Directory],
    gone: str | None,
    new: str | None,
    what: _File | _Directory,
) -> None:
    if gone is not None:
        entries.pop(gone, None)
    if new is not None:
        entries[new] = what


class _Output:
    def __init__(self, files: LosingFiles, file: _File) -> None:
        self._files = files
        self._file = file

    def write(self, block: Block) -> None:
        data = bytes(block)
        fits = self._files.live(len(data))
        end = len(self._file.content)
        self._file.content += data[:fits]
        self._file.pending.append((end, data[:fits]))
        if fits < len(data):
            raise PowerCut

    def synchronize(self) -> None:
        self._files.live()
        self._file.durable = bytes(self._file.content)
        self._file.pending.clear()

    def close(self) -> None:
        pass


class LosingFiles:
    """The file system; its root is ``""``.

    Args:
        cut: how much happens before the power goes; an operation counts one, a written
            byte another.

    """

    def __init__(self, cut: int | None = None) -> None:
        self.root = _Directory()
        self.happened = 0
        self._cut = cut

    def live(self, most: int = 0) -> int:
        """Do one more operation, of ``most`` bytes; returns how many of them. Raises PowerCut."""
        self.happened += 1
        if self._cut is not None and self.happened > self._cut:
            raise PowerCut
        fits = most if self._cut is None else min(most, self._cut - self.happened)
        self.happened += fits
        return fits

    def make_directory(self, path: str) -> None:
        self.live()
        parent, name = self._parent(path)
        assert name not in parent.entries
        parent.change(None, name, _Directory())

    def create(self, path: str, *, direct: bool) -> Output:
        self.live()
        parent, name = self._parent(path)
        assert name not in parent.entries
        file = _File()
        parent.change(None, name, file)
        return _Output(self, file)

    def rename(self, old: str, new: str) -> None:
        self.live()
        parent, name = self._parent(old)
        same, new_name = self._parent(new)
        assert same is parent
        parent.change(name, new_name, parent.entries[name])

    def names(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def remove(self, path: str) -> None:
        self.live()
        parent, name = self._parent(path)
        parent.change(name, None, parent.entries[name])

    def remove_directory(self, path: str) -> None:
        assert not self._directory(path).entries
        self.remove(path)

    def synchronize_directory(self, path: str) -> None:
        self.live()
        directory = self._directory(path)
        directory.durable = dict(directory.entries)
        directory.pending.clear()

    def crash(self, luck: Luck, place: Path) -> None:
        """Lay out below ``place`` what the power left."""
        _lay_out(self.root, luck, str(place))

    def _directory(self, path: str) -> _Directory:
        here: _File | _Directory = self.root
        for name in filter(None, path.split("/")):
            assert isinstance(here, _Directory)
            here = here.entries[name]
        assert isinstance(here, _Directory)
        return here

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


def _lay_out(directory: _Directory, luck: Luck, place: str) -> None:
    entries = dict(directory.durable)
    for gone, new, what in directory.pending:
        if luck.kept(1):
            _apply(entries, gone, new, what)
    for name, what in entries.items():
        path = f"{place}/{name}"
        if isinstance(what, _Directory):
            os.mkdir(path)
            _lay_out(what, luck, path)
        else:
            with open(path, "wb") as opened:
                opened.write(_left_of(what, luck))


def _left_of(file: _File, luck: Luck) -> bytes:
    content = bytearray(file.durable)
    for offset, data in file.pending:
        kept = luck.kept(len(data))
        zeros = luck.kept(len(data)) if kept < len(data) else 0
        end = offset + max(kept, zeros)
        content.extend(bytes(max(end - len(content), 0)))
        content[offset : offset + kept] = data[:kept]
    return bytes(content)


class _Around:
    """Another file system, as it is: what a careless writer leaves out is left out below."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def make_directory(self, path: str) -> None:
        self._files.make_directory(path)

    def create(self, path: str, *, direct: bool) -> Output:
        return self._files.create(path, direct=direct)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(old, new)

    def names(self, path: str) -> list[str]:
        return self._files.names(path)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def remove_directory(self, path: str) -> None:
        self._files.remove_directory(path)

    def synchronize_directory(self, path: str) -> None:
        self._files.synchronize_directory(path)


class NoFileSync(_Around):
    """Never synchronizes a file."""

    def create(self, path: str, *, direct: bool) -> Output:
        return _Unsynchronized(super().create(path, direct=direct))


class _Unsynchronized:
    def __init__(self, output: Output) -> None:
        self.write = output.write
        self.close = output.close

    def synchronize(self) -> None:
        pass


class NoShardNames(_Around):
    """Never makes the names of the shards durable."""

    def synchronize_directory(self, path: str) -> None:
        if not path.endswith(".partial"):
            super().synchronize_directory(path)


class NoCheckpointNames(_Around):
    """Never makes the names of the checkpoints durable."""

    def synchronize_directory(self, path: str) -> None:
        if path.endswith(".partial"):
            super().synchronize_directory(path)


class AtItsFinalPlace(_Around):
    """Writes and removes where the checkpoint belongs: no partial name, no name for what goes."""

    def make_directory(self, path: str) -> None:
        super().make_directory(_final(path))

    def create(self, path: str, *, direct: bool) -> Output:
        return super().create(_final(path), direct=direct)

    def rename(self, old: str, new: str) -> None:
        pass

    def names(self, path: str) -> list[str]:
        return super().names(_final(path))

    def remove(self, path: str) -> None:
        super().remove(_final(path))

    def remove_directory(self, path: str) -> None:
        super().remove_directory(_final(path))

    def synchronize_directory(self, path: str) -> None:
        super().synchronize_directory(_final(path))


def _final(path: str) -> str:
    return path.replace(".partial", "").replace(".removed", "")


class ManifestFirst(_Around):
    """Writes and synchronizes the shards only once the checkpoint has its name."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._late: list[_Late] = []

    def create(self, path: str, *, direct: bool) -> Output:
        output = super().create(path, direct=direct)
        if not direct:
            return output
        self._late.append(_Late(output))
        return self._late[-1]

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        for late in self._late:
            late.catch_up()
        self._late.clear()


class _Late:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._blocks: list[bytes] = []

    def write(self, block: Block) -> None:
        self._blocks.append(bytes(block))

    def synchronize(self) -> None:
        pass

    def close(self) -> None:
        pass

    def catch_up(self) -> None:
        for block in self._blocks:
            self._output.write(block)
        self._output.synchronize()
        self._output.close()


#: Every way to do it wrong.
CARELESS = (NoFileSync, NoShardNames, NoCheckpointNames, AtItsFinalPlace, ManifestFirst)
