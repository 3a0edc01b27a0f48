"""Judges checkpoints of safetensors files without loading a tensor.

A file is eight bytes (the length of a JSON header, little endian), the header, and the
tensors' bytes, which the header's ``data_offsets`` cover without holes. A checkpoint of
several files has an index, ``….safetensors.index.json``, written last: it names the file
of each tensor. Source: the format's description in the safetensors repository's README.

There are no checksums: a file of the right size whose bytes were lost looks complete.
"""

from __future__ import annotations

import math
import os
import re
from typing import Annotated, Any

import msgspec

from nvmeof_exporter.drill.files import is_plain_name
from nvmeof_exporter.drill.findings import Condition, Finding, os_reason

__all__ = ["Damaged", "header_of", "is_one", "judge"]

_INDEX = ".safetensors.index.json"
_FILE = ".safetensors"
_NUMBERED = re.compile(r".*-(\d+)-of-(\d+)\.safetensors", re.ASCII)
_METADATA = "__metadata__"

_LENGTH_BYTES = 8
#: The limit of the reference implementation.
_MAX_HEADER_BYTES = 100_000_000
_MAX_INDEX_BYTES = 256 << 20

_Natural = Annotated[int, msgspec.Meta(ge=0)]

REMARK = "safetensors have no checksums: sizes and headers were judged, not the tensors' bytes"

#: Bits of an element, for the types whose size is known here; others' sizes are not judged.
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64"), 64),
}


class Damaged(Exception):  # noqa: N818 - a judgement on a file, no mistake of ours
    """A file is not what its format says; the text says how."""


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[_Natural, ...]
    data_offsets: tuple[_Natural, _Natural]


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]
    metadata: dict[str, Any] = {}


def is_one(names: list[str]) -> bool:
    """Whether a directory with these names holds such a checkpoint, or begins to."""
    return any(name.endswith((_FILE, _INDEX)) for name in names)


def judge(path: str, names: list[str]) -> Finding:
    """Judge the checkpoint in the directory ``path``, which has ``names``."""
    name = os.path.basename(os.path.abspath(path))
    total = 0
    try:
        wanted = _wanted(path, names)
        if isinstance(wanted, str):
            return Finding(name, "safetensors", Condition.TORN, wanted)
        for file, tensors in sorted(wanted.items()):
            size, present = _measure(path, file)
            total += size
            lacking = sorted(tensors - present)
            if lacking:
                return Finding(
                    name,
                    "safetensors",
                    Condition.BROKEN,
                    f"{file} lacks {len(lacking)} of its tensors, such as {lacking[0]!r}",
                )
    except Damaged as reason:
        return Finding(name, "safetensors", Condition.BROKEN, str(reason))
    except OSError as error:
        return Finding(name, "safetensors", Condition.UNKNOWN, os_reason(error))
    return Finding(
        name, "safetensors", Condition.COMPLETE, "", None, total, None, remarks=(REMARK,)
    )


def header_of(file: str) -> tuple[dict[str, Any], int]:
    """Return the raw header of a file, and where the tensors' bytes begin.

    Raises:
        Damaged: it is cut off or no header.
        OSError: it cannot be read.

    """
    name = os.path.basename(file)
    with open(file, "rb") as opened:
        first = opened.read(_LENGTH_BYTES)
        length = int.from_bytes(first, "little")
        if len(first) < _LENGTH_BYTES or not 0 < length <= _MAX_HEADER_BYTES:
            raise Damaged(f"{name} does not begin with the length of a header")
        raw = opened.read(length)
    if len(raw) < length:
        raise Damaged(f"{name} ends within its header")
    try:
        return msgspec.json.decode(raw, type=dict[str, Any]), _LENGTH_BYTES + length
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name}: its header is no JSON object ({error})") from None


def _wanted(path: str, names: list[str]) -> dict[str, set[str]] | str:
    """Return which tensors each file must have, or why the checkpoint was never finished."""
    indexes = [name for name in names if name.endswith(_INDEX)]
    files = [name for name in names if name.endswith(_FILE)]
    if not indexes:
        for file in files:
            numbered = _NUMBERED.fullmatch(file)
            if numbered and int(numbered[2]) > 1:
                return f"{file} is one of several, and there is no index"
        return {file: set() for file in files}
    wanted: dict[str, set[str]] = {}
    for index in indexes:
        for tensor, file in _index(path, index).weight_map.items():
            if not is_plain_name(file):
                raise Damaged(f"{index} names a file elsewhere")
            wanted.setdefault(file, set()).add(tensor)
    return wanted


def _index(path: str, name: str) -> _Index:
    with open(f"{path}/{name}", "rb") as opened:
        raw = opened.read(_MAX_INDEX_BYTES + 1)
    if len(raw) > _MAX_INDEX_BYTES:
        raise Damaged(f"{name} is larger than {_MAX_INDEX_BYTES} bytes")
    try:
        index = msgspec.json.decode(raw, type=_Index)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name}: {error}") from None
    if not index.weight_map:
        raise Damaged(f"{name} names no tensor")
    return index


def _measure(path: str, name: str) -> tuple[int, set[str]]:
    """Hold a file's size against its header. Returns the size and the tensors' names."""
    file = f"{path}/{name}"
    try:
        header, begin = header_of(file)
        size = os.stat(file).st_size
    except FileNotFoundError:
        raise Damaged(f"{name} is missing") from None
    header.pop(_METADATA, None)
    try:
        tensors = msgspec.convert(header, dict[str, _Tensor])
    except ValueError as error:
        raise Damaged(f"{name}: {error}") from None
    end = 0
    for tensor, entry in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        first, after = entry.data_offsets
        bits = _BITS.get(entry.dtype)
        if first != end or after < first:
            raise Damaged(f"{name}: {tensor!r} does not begin where the one before ends")
        if bits is not None and (after - first) * 8 != bits * math.prod(entry.shape):
            raise Damaged(f"{name}: {tensor!r} is not as large as its shape says")
        end = after
    if size != begin + end:
        raise Damaged(f"{name} has {size} bytes of {begin + end}")
    return size, set(tensors)
