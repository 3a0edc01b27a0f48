"""Checkpoints written as they should be: whole or not at all, whenever the power goes.

A checkpoint is a directory, ``step-00000012``, of shards and a manifest that
has each shard's size and checksum. It comes about in this order:

1. ``step-00000012.partial`` is made, and the shards are written there;
2. each shard is synchronized, then the directory, so that their names are durable;
3. the manifest is written and synchronized, and the directory again;
4. the directory gets its final name, and its parent is synchronized.

Only then is it *committed*, and may somebody be told so. A final name is seen
only with all that was durable before it: a directory of that name whose
manifest does not hold is the storage's fault, or its writer's.

Retiring an old checkpoint is as delicate: a final name must not outlive its
shards. It gets the name ``step-00000012.removed``, durably, before anything of
it is removed.
"""

from __future__ import annotations

import hashlib
import mmap
import random
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.drill.files import BLOCK_BYTES

if TYPE_CHECKING:
    from nvmeof_exporter.drill.files import Block, Files

__all__ = [
    "FORMAT",
    "MANIFEST",
    "PARTIAL",
    "REMOVED",
    "STAMP_BYTES",
    "VERSION",
    "Content",
    "Manifest",
    "Shape",
    "ShardEntry",
    "commit",
    "digest_of",
    "final_name",
    "retire",
    "shard_name",
    "stamp",
    "step_of",
]

FORMAT = "nvmeof-exporter-drill-checkpoint"
VERSION = 1

MANIFEST = "manifest.json"
PARTIAL = ".partial"
REMOVED = ".removed"

_FINAL = re.compile(r"step-(\d{8,18})", re.ASCII)
_STAMP = struct.Struct("<8sQQQ")
_MAGIC = b"nvmeofcp"

#: A stamp's size; blocks are larger.
STAMP_BYTES = _STAMP.size


class ShardEntry(msgspec.Struct, frozen=True):
    """One shard: its file's name, size in bytes, and SHA-256 as ``sha256sum`` shows it."""

    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a checkpoint consists of.

    ``written`` is wall clock seconds since the epoch. Each shard is made of blocks of
    ``block_bytes``, whose first bytes are a stamp: see ``stamp``.
    """

    format: str
    version: int
    step: int
    written: float
    block_bytes: int
    shards: tuple[ShardEntry, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a checkpoint is: ``shards`` files of ``blocks`` blocks of ``block_bytes`` each.

    ``block_bytes`` divides BLOCK_BYTES, or is a multiple of it.
    """

    shards: int = 4
    blocks: int = 64
    block_bytes: int = BLOCK_BYTES

    @property
    def bytes(self) -> int:
        """The size of all shards, in bytes."""
        return self.shards * self.blocks * self.block_bytes


class Content:
    """What the shards hold: noise, with a stamp in each block that says where it belongs.

    Noise, so that no storage can save it in less space than a real one's; stamped, so that
    a block of another step or place is not taken for the right one. The block is made once
    and is page-aligned, as direct writes want it.
    """

    def __init__(self, shape: Shape, seed: int = 1) -> None:
        self.shape = shape
        self._block = mmap.mmap(-1, shape.block_bytes)
        self._block[:] = random.Random(seed).randbytes(shape.block_bytes)  # noqa: S311  # no secret

    def block(self, step: int, shard: int, index: int) -> Block:
        """Make one block; it is good until the next one is asked for."""
        self._block[:STAMP_BYTES] = stamp(step, shard, index)
        return self._block


def stamp(step: int, shard: int, index: int) -> bytes:
    """Make the first STAMP_BYTES of a block."""
    return _STAMP.pack(_MAGIC, step, shard, index)


def final_name(step: int) -> str:
    """Name the directory of a committed checkpoint."""
    return f"step-{step:08d}"


def shard_name(shard: int, shards: int) -> str:
    """Name the file of a shard."""
    return f"shard-{shard:05d}-of-{shards:05d}.bin"


def step_of(name: str) -> int | None:
    """Tell the step of a final name, None for any other name."""
    match = _FINAL.fullmatch(name)
    return int(match[1]) if match and final_name(int(match[1])) == name else None


def digest_of(manifest: bytes) -> str:
    """Identify a checkpoint by the SHA-256 of its manifest, which has those of its shards."""
    return hashlib.sha256(manifest).hexdigest()


def commit(files: Files, directory: str, step: int, content: Content, written: float) -> str:
    """Write the checkpoint ``step`` below ``directory``; when this returns it is committed.

    Args:
        files: the file system.
        directory: where checkpoints are kept.
        step: its number, of which there must not be one yet.
        content: what is written.
        written: now, wall clock seconds.

    Returns:
        The manifest's digest.

    Raises:
        OSError: it is not committed; what there is of it has no final name.

    """
    final = f"{directory}/{final_name(step)}"
    partial = final + PARTIAL
    files.make_directory(partial)
    shards = tuple(
        _write_shard(files, partial, step, shard, content) for shard in range(content.shape.shards)
    )
    files.synchronize_directory(partial)
    manifest = msgspec.json.encode(
        Manifest(FORMAT, VERSION, step, written, content.shape.block_bytes, shards)
    )
    manifest = msgspec.json.format(manifest, indent=1) + b"\n"
    _write(files, f"{partial}/{MANIFEST}", manifest)
    files.synchronize_directory(partial)
    files.rename(partial, final)
    files.synchronize_directory(directory)
    return digest_of(manifest)


def retire(files: Files, directory: str, step: int) -> None:
    """Remove a committed checkpoint so that no moment of it looks like a broken one.

    Raises OSError; what is left then is no checkpoint any more, or still a whole one.
    """
    final = f"{directory}/{final_name(step)}"
    removed = final + REMOVED
    files.rename(final, removed)
    files.synchronize_directory(directory)
    for name in files.names(removed):
        files.remove(f"{removed}/{name}")
    files.remove_directory(removed)


def _write_shard(
    files: Files, directory: str, step: int, shard: int, content: Content
) -> ShardEntry:
    shape = content.shape
    name = shard_name(shard, shape.shards)
    digest = hashlib.sha256()
    output = files.create(f"{directory}/{name}", direct=True)
    try:
        for index in range(shape.blocks):
            block = content.block(step, shard, index)
            digest.update(block)
            output.write(block)
        output.synchronize()
    finally:
        output.close()
    return ShardEntry(name, shape.blocks * shape.block_bytes, digest.hexdigest())


def _write(files: Files, path: str, content: bytes) -> None:
    output = files.create(path, direct=False)
    try:
        output.write(content)
        output.synchronize()
    finally:
        output.close()
