"""Checkpoints as frameworks write them, without the frameworks."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["archive", "dcp", "safetensors_file"]

_FILESYSTEM = "torch.distributed.checkpoint.filesystem"
_METADATA = "torch.distributed.checkpoint.metadata"


class _Plain:
    """Has the attributes it is given; pickled as a dataclass is."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@contextmanager
def _modules() -> Iterator[dict[str, type[_Plain]]]:
    """Classes that pickle takes for PyTorch's."""
    places = {"_StorageInfo": _FILESYSTEM, "Metadata": _METADATA, "MetadataIndex": _METADATA}
    classes = {}
    names = [_FILESYSTEM.rsplit(".", count)[0] for count in (3, 2, 1)] + [_FILESYSTEM, _METADATA]
    before = {name: sys.modules.get(name) for name in names}
    try:
        for name in names:
            sys.modules[name] = ModuleType(name)
        for name, place in places.items():
            classes[name] = type(name, (_Plain,), {"__module__": place})
            setattr(sys.modules[place], name, classes[name])
        yield classes
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def archive(*members: bytes, checksums: bool = True) -> bytes:
    """What torch.save writes: a ZIP archive of uncompressed members."""
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as opened:
        for number, member in enumerate(members):
            opened.writestr(f"archive/data/{number}", member)
            if not checksums:
                opened.filelist[-1].CRC = 0
    return into.getvalue()


def dcp(
    directory: Path, files: dict[str, list[bytes]], protocol: int = pickle.DEFAULT_PROTOCOL
) -> None:
    """Write a PyTorch distributed checkpoint: the pieces of each file, one after the other."""
    directory.mkdir()
    with _modules() as torch:
        storage = {}
        for name, pieces in files.items():
            offset = 0
            for number, piece in enumerate(pieces):
                index = torch["MetadataIndex"](fqn=f"{name}.{number}", offset=None, index=None)
                storage[index] = torch["_StorageInfo"](
                    relative_path=name, offset=offset, length=len(piece)
                )
                offset += len(piece)
            (directory / name).write_bytes(b"".join(pieces))
        metadata = torch["Metadata"](
            state_dict_metadata={"weight": (4, 4)}, planner_data=None, storage_data=storage
        )
        (directory / ".metadata").write_bytes(pickle.dumps(metadata, protocol))


def safetensors_file(**tensors: tuple[str, tuple[int, ...], bytes]) -> bytes:
    """A file of tensors: (dtype, shape, bytes) by name."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [offset, offset + len(data)],
        }
        offset += len(data)
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + b"".join(t[2] for t in tensors.values())
