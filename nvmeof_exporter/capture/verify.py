"""Whether an unpacked bundle is whole: half of a node looks like a node in trouble."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from nvmeof_exporter.capture.entry import Entry, fingerprint
from nvmeof_exporter.config import ConfigError

__all__ = ["FORMAT", "MANIFEST", "Seal", "refuse_broken"]

#: The file beside ``sys`` that says what a bundle is; a directory without it is none.
MANIFEST = "capture.json"
FORMAT = 1


class Seal(msgspec.Struct, frozen=True):
    """What the tree of a bundle must be: so many entries, of this hash (``fingerprint``)."""

    entries: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    tree: Seal
    taken: str = "at an unknown time"


def refuse_broken(sysfs: str) -> str | None:
    """Raise ConfigError where ``sysfs`` is the tree of a bundle that is not whole, or out of reach.

    Returns when it was taken; None for any other directory, at the cost of one look for a file.
    """
    if sysfs.endswith(".tar.xz") and os.path.isfile(sysfs):
        raise ConfigError(
            f"--path.sysfs: {sysfs!r} is packed; unpack it and name its directory sys"
        )
    manifest = Path(sysfs).parent / MANIFEST
    try:
        os.stat(sysfs)  # its parent may be closed to this user: that is not "no directory"
        captured = Path(sysfs).name == "sys" and manifest.is_file()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"--path.sysfs: {error.filename!r}: {error.strerror}") from None
    if not captured:
        return None
    try:
        told = msgspec.json.decode(manifest.read_bytes(), type=_Manifest)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{manifest}: is no manifest of a capture: {error}") from None
    if told.format != FORMAT:
        raise ConfigError(
            f"{manifest}: found a capture of format {told.format}, expected format {FORMAT}"
        )
    entries = _entries(sysfs)
    if fingerprint(entries) != (told.tree.entries, told.tree.sha256):
        found = f"{len(entries)} of {told.tree.entries} entries are there"
        if len(entries) == told.tree.entries:
            found = "something in it was changed"
        raise ConfigError(
            f"--path.sysfs: {sysfs!r} is not the tree that was captured: {found}; unpack it "
            f"again, or remove {MANIFEST} to look at it all the same"
        )
    return told.taken


def _entries(root: str) -> list[Entry]:
    found = []
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = f"{directory}/{name}"
            relative = path.removeprefix(f"{root}/")
            try:
                if os.path.islink(path):
                    found.append(Entry(relative, "l", os.fsencode(os.readlink(path))))
                elif name in directories:
                    found.append(Entry(relative, "d"))
                else:
                    found.append(Entry(relative, "f", Path(path).read_bytes()))
            except OSError as error:
                raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return found
