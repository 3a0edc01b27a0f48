"""Judges the checkpoints in a directory: the drill's own, and those of frameworks.

It opens nothing but the files of a checkpoint, for reading, and runs nothing that is in
them. The drill's own are loaded whole: each block must say that it belongs there.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.drill import dcp, safetensors
from nvmeof_exporter.drill.checkpoint import (
    FORMAT,
    MANIFEST,
    PARTIAL,
    REMOVED,
    STAMP_BYTES,
    VERSION,
    Manifest,
    digest_of,
    final_name,
    stamp,
    step_of,
)
from nvmeof_exporter.drill.files import BLOCK_BYTES, is_plain_name, read_blocks
from nvmeof_exporter.drill.findings import Condition, Finding, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["judge", "newest_good", "verify"]

_MAX_MANIFEST_BYTES = 64 << 20


class _Broken(Exception):  # noqa: N818 - a judgement on a checkpoint, no mistake of ours
    """A committed checkpoint does not hold; the text says where."""


def verify(directory: str, record: Mapping[int, str] | None = None) -> list[Finding]:
    """Judge every checkpoint in ``directory``, or ``directory`` where it is one itself.

    Args:
        directory: where checkpoints are kept, or one.
        record: the digests of the drill's checkpoints that must be there, by step.

    Returns:
        Findings in the order of their names; what is missing by the record comes last.

    Raises:
        OSError: the directory cannot be listed.

    """
    names = sorted(os.listdir(directory))
    found = _judge_content(directory, names, record)
    if found is not None:
        return [found]
    findings = []
    for name in names:
        path = f"{directory}/{name}"
        if os.path.isdir(path):
            finding = judge(path, record)
            if finding is not None:
                findings.append(finding)
    present = {finding.step for finding in findings if finding.condition is not Condition.TORN}
    findings += [
        Finding(
            final_name(step), "drill", Condition.LOST, "committed by the record, not there", step
        )
        for step in sorted((record or {}).keys() - present)
    ]
    return findings


def judge(path: str, record: Mapping[int, str] | None = None) -> Finding | None:
    """Judge the checkpoint directory ``path``; None where it does not look like one."""
    name = os.path.basename(path)
    for ending in (PARTIAL, REMOVED):
        step = step_of(name.removesuffix(ending)) if name.endswith(ending) else None
        if step is not None:
            reason = "never committed" if ending == PARTIAL else "on its way out"
            return Finding(name, "drill", Condition.TORN, reason, step)
    try:
        return _judge_content(path, sorted(os.listdir(path)), record)
    except OSError as error:
        return Finding(name, "", Condition.UNKNOWN, os_reason(error), step_of(name))


def newest_good(findings: Iterable[Finding]) -> Finding | None:
    """Find the drill's checkpoint that a job would go on from, None where there is none."""
    good = [finding for finding in findings if finding.good and finding.step is not None]
    return max(good, key=lambda finding: finding.step or 0, default=None)


def _judge_content(
    path: str, names: list[str], record: Mapping[int, str] | None = None
) -> Finding | None:
    """Judge a directory by what is in it; None where it is no checkpoint. Raises OSError."""
    if dcp.is_one(names):
        return dcp.judge(path, names)
    if safetensors.is_one(names):
        return safetensors.judge(path, names)
    path = os.path.abspath(path)
    step = step_of(os.path.basename(path))
    return None if step is None else _judge_own(path, step, (record or {}).get(step))


def _judge_own(path: str, step: int, digest: str | None) -> Finding:
    name = os.path.basename(path)
    read = 0
    written = None
    try:
        manifest, found = _manifest(path, step)
        written = manifest.written
        if digest is not None and found != digest:
            raise _Broken(f"{MANIFEST} is not the one that was committed")  # noqa: TRY301
        for number, shard in enumerate(manifest.shards):
            _check_shard(path, manifest, number)
            read += shard.bytes
    except _Broken as reason:
        return Finding(name, "drill", Condition.BROKEN, str(reason), step, read, written)
    except OSError as error:
        return Finding(name, "drill", Condition.UNKNOWN, os_reason(error), step, read, written)
    return Finding(name, "drill", Condition.WHOLE, "", step, read, written)


def _manifest(path: str, step: int) -> tuple[Manifest, str]:
    """Return a checkpoint's manifest and its digest. Raises _Broken and OSError."""
    file = f"{path}/{MANIFEST}"
    try:
        size = os.stat(file).st_size
        if size > _MAX_MANIFEST_BYTES:
            raise _Broken(f"{MANIFEST} is larger than {_MAX_MANIFEST_BYTES} bytes")
        raw = b"".join(bytes(block) for block in read_blocks(file))
    except FileNotFoundError:
        raise _Broken(f"{MANIFEST} is missing") from None
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except ValueError as error:
        raise _Broken(f"{MANIFEST}: {error}") from None
    if (manifest.format, manifest.version) != (FORMAT, VERSION):
        raise _Broken(f"{MANIFEST} is of another format or version")
    if manifest.step != step:
        raise _Broken(f"{MANIFEST} is that of step {manifest.step}")
    names = [shard.name for shard in manifest.shards]
    if not names or len(set(names)) != len(names) or not all(map(is_plain_name, names)):
        raise _Broken(f"{MANIFEST} names no shards, one twice, or files elsewhere")
    size = manifest.block_bytes
    if size < STAMP_BYTES or (BLOCK_BYTES % size and size % BLOCK_BYTES):
        raise _Broken(f"{MANIFEST}: blocks of {size} bytes are not possible")
    return manifest, digest_of(raw)


def _check_shard(path: str, manifest: Manifest, number: int) -> None:
    """Load a shard and hold it against the manifest. Raises _Broken and OSError."""
    shard = manifest.shards[number]
    digest = hashlib.sha256()
    size = 0
    misplaced: int | None = None
    try:
        for block in read_blocks(f"{path}/{shard.name}"):
            digest.update(block)
            if misplaced is None:
                misplaced = _misplaced(block, size, manifest, number)
            size += len(block)
    except FileNotFoundError:
        raise _Broken(f"{shard.name} is missing") from None
    if size != shard.bytes:
        raise _Broken(f"{shard.name} has {size} bytes of {shard.bytes}")
    if digest.hexdigest() != shard.sha256:
        raise _Broken(f"{shard.name} has another checksum")
    if misplaced is not None:
        raise _Broken(f"{shard.name} at {misplaced} is not what belongs there in this step")


def _misplaced(block: memoryview, offset: int, manifest: Manifest, shard: int) -> int | None:
    """Return where something lies that belongs elsewhere, of what was read from ``offset`` on."""
    size = manifest.block_bytes
    for place in range(-offset % size, len(block), size):
        index = (offset + place) // size
        if bytes(block[place : place + STAMP_BYTES]) != stamp(manifest.step, shard, index):
            return offset + place
    return None
