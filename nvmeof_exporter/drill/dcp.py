"""Judges PyTorch distributed checkpoints without PyTorch.

Such a checkpoint is a directory of ``….distcp`` files and ``.metadata``, a pickle that is
written last and renamed from ``.metadata.tmp``. It says where each tensor lies: a file, an
offset and a length. What lies there is what ``torch.save`` wrote, a ZIP archive whose
members have checksums, or a safetensors file, or some other bytes.
Source: ``_FileSystemWriter`` in torch/distributed/checkpoint/filesystem.py.
"""

from __future__ import annotations

import enum
import io
import os
import zipfile
import zlib
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec

from nvmeof_exporter.drill.files import BLOCK_BYTES, is_plain_name
from nvmeof_exporter.drill.findings import Condition, Finding, os_reason
from nvmeof_exporter.drill.pickled import PickleError, objects_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.drill.pickled import Inert

__all__ = ["is_one", "judge"]

_METADATA = ".metadata"
_TEMPORARY = ".metadata.tmp"
_SHARD = ".distcp"
_ENTRY = "_StorageInfo"

_MAX_METADATA_BYTES = 256 << 20
_ZIP_MAGIC = b"PK\x03\x04"

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Broken(Exception):  # noqa: N818 - a judgement on a checkpoint, no mistake of ours
    """A committed checkpoint does not hold; the text says where."""


class _Kind(enum.Enum):
    """What a piece turned out to be."""

    CHECKED = "an archive whose checksums hold"
    OTHER = "bytes without checksums"
    ZEROS = "bytes that begin with zeros"


class _Piece(msgspec.Struct, frozen=True, order=True):
    """Where something lies: the attributes of ``_StorageInfo`` that are used here."""

    relative_path: str
    offset: _Natural
    length: _Natural


class _Slice(io.RawIOBase):
    """A part of a file as a file of its own."""

    def __init__(self, file: BinaryIO, piece: _Piece) -> None:
        super().__init__()
        self._file = file
        self._piece = piece
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move, as any file does."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._piece.length}
        self._position = max(base[whence] + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # as io declares it
        """Read what is left, at most."""
        wanted = min(len(buffer), max(self._piece.length - self._position, 0))
        self._file.seek(self._piece.offset + self._position)
        got = self._file.read(wanted)
        buffer[: len(got)] = got
        self._position += len(got)
        return len(got)


def is_one(names: list[str]) -> bool:
    """Whether a directory with these names holds such a checkpoint, or begins to."""
    return any(name in {_METADATA, _TEMPORARY} or name.endswith(_SHARD) for name in names)


def judge(path: str, names: list[str]) -> Finding:
    """Judge the checkpoint in the directory ``path``, which has ``names``."""
    name = os.path.basename(os.path.abspath(path))
    if _METADATA not in names:
        reason = f"{_METADATA} was never written"
        return Finding(name, "dcp", Condition.TORN, reason)
    try:
        raw = _read_metadata(path)
        try:
            pieces = _pieces(objects_in(raw))
        except PickleError as error:
            raise _Broken(f"{_METADATA}: {error}") from None
        if not pieces:
            reason = f"{_METADATA} names no file: it is of a form that is not understood"
            return Finding(name, "dcp", Condition.UNKNOWN, reason)
        unchecked = _check(path, pieces)
    except _Broken as reason:
        return Finding(name, "dcp", Condition.BROKEN, str(reason))
    except OSError as error:
        return Finding(name, "dcp", Condition.UNKNOWN, os_reason(error))
    total = sum(piece.length for piece in pieces)
    if not unchecked:
        return Finding(name, "dcp", Condition.WHOLE, "", None, total)
    remark = (
        f"{unchecked} of {len(pieces)} pieces have no checksums: that they are there was judged, "
        "not what is in them"
    )
    return Finding(name, "dcp", Condition.COMPLETE, "", None, total, None, (remark,))


def _read_metadata(path: str) -> bytes:
    with open(f"{path}/{_METADATA}", "rb") as opened:
        raw = opened.read(_MAX_METADATA_BYTES + 1)
    if len(raw) > _MAX_METADATA_BYTES:
        raise _Broken(f"{_METADATA} is larger than {_MAX_METADATA_BYTES} bytes")
    return raw


def _pieces(made: Iterable[Inert]) -> list[_Piece]:
    """Find where everything lies. Raises PickleError."""
    pieces = []
    for thing in made:
        if thing.name.rpartition(" ")[2] != _ENTRY:
            continue
        try:
            piece = msgspec.convert(thing.state, _Piece)
        except msgspec.ValidationError as error:
            raise PickleError(f"{_ENTRY}: {error}") from None
        if not is_plain_name(piece.relative_path):
            raise PickleError(f"{_ENTRY} names a file elsewhere")
        pieces.append(piece)
    return pieces


def _check(path: str, pieces: list[_Piece]) -> int:
    """Hold the files against what they must have. Returns how many pieces have no checksums.

    Raises _Broken and OSError.
    """
    by_file: dict[str, list[_Piece]] = {}
    for piece in sorted(pieces):
        by_file.setdefault(piece.relative_path, []).append(piece)
    seen: dict[_Kind, list[_Piece]] = {kind: [] for kind in _Kind}
    for file, own in by_file.items():
        try:
            opened = open(f"{path}/{file}", "rb", buffering=BLOCK_BYTES)  # noqa: SIM115
        except FileNotFoundError:
            raise _Broken(f"{file} is missing") from None
        with opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(opened.fileno()).st_size
            end = max(piece.offset + piece.length for piece in own)
            if size < end:
                raise _Broken(f"{file} has {size} bytes of {end}")
            for piece in own:
                seen[_check_piece(opened, piece)].append(piece)
    zeros = seen[_Kind.ZEROS]
    if seen[_Kind.CHECKED] and zeros:
        # All pieces are of one format, and an archive does not begin so: never written.
        raise _Broken(f"{zeros[0].relative_path} at {zeros[0].offset} begins with zeros")
    return len(pieces) - len(seen[_Kind.CHECKED])


def _check_piece(opened: BinaryIO, piece: _Piece) -> _Kind:
    """Check one piece by its own checksums, where it has any. Raises _Broken."""
    opened.seek(piece.offset)
    magic = opened.read(min(len(_ZIP_MAGIC), piece.length))
    if magic != _ZIP_MAGIC:
        return _Kind.OTHER if any(magic) else _Kind.ZEROS
    where = f"{piece.relative_path} at {piece.offset}"
    try:
        with zipfile.ZipFile(io.BufferedReader(_Slice(opened, piece))) as archive:
            # A writer may be told to save the time for checksums; they are 0 then.
            if not any(member.CRC for member in archive.infolist()):
                return _Kind.OTHER
            damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _Broken(f"{where}: {error}") from None
    if damaged is not None:
        raise _Broken(f"{where}: {damaged} has another checksum")
    return _Kind.CHECKED
