"""The ``expected`` section of the configuration file: what each subsystem must have.

expected:
  - nqn: nqn.2014-08.org.example:fast
    paths: ["tcp:10.0.0.2:4420", "tcp:10.0.1.2:4420"]
  - nqn: nqn.2014-08.org.example:archive
    count: 2
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nvmeof_exporter.config.errors import ConfigError, quoted, suggestion
from nvmeof_exporter.config.model import ExpectedSubsystem
from nvmeof_exporter.config.values import integer

if TYPE_CHECKING:
    from nvmeof_exporter.config.file import FileNode

__all__ = ["decode_expected"]

_KEYS = ("nqn", "paths", "count")
_MOST_PATHS = 4096

#: With its terminating NUL 224 bytes (NVMe Base Specification, NVMe Qualified Names).
_LONGEST_NQN = 223

_PATH_LABEL = re.compile(r"(tcp|rdma|fc|loop|pcie):\S+")
_count = integer(1, _MOST_PATHS)


def decode_expected(section: FileNode) -> tuple[ExpectedSubsystem, ...]:
    """The subsystems of the section. Raises ConfigError with file, line and reason."""
    if section.is_null:
        return ()
    subsystems: dict[str, ExpectedSubsystem] = {}
    for item in section.items("a list of subsystems"):
        subsystem = _decode_subsystem(item)
        if subsystem.nqn in subsystems:
            raise ConfigError(f"{item.where}: {quoted(subsystem.nqn)} is given twice")
        subsystems[subsystem.nqn] = subsystem
    return tuple(subsystems.values())


def _decode_subsystem(item: FileNode) -> ExpectedSubsystem:
    found: dict[str, FileNode] = {}
    for key, value in item.entries("a mapping with nqn and either paths or count"):
        name = key.name.removeprefix(f"{item.name}.")
        if name not in _KEYS:
            raise ConfigError(
                f"{key.place}: unknown key {quoted(key.name)}{suggestion(name, _KEYS)}"
            )
        found[name] = value
    if "nqn" not in found:
        raise ConfigError(f"{item.where}: nqn is missing")
    if ("paths" in found) == ("count" in found):
        raise ConfigError(f"{item.where}: expected either paths or count")
    nqn = _decode_nqn(found["nqn"])
    if "paths" in found:
        paths = _decode_paths(found["paths"])
        return ExpectedSubsystem(nqn=nqn, count=len(paths), paths=paths)
    return ExpectedSubsystem(nqn=nqn, count=_decode_count(found["count"]))


def _decode_nqn(value: FileNode) -> str:
    nqn = value.text("a subsystem NQN")
    if not 0 < len(nqn.encode()) <= _LONGEST_NQN:
        raise value.refuse(f"a subsystem NQN of 1 to {_LONGEST_NQN} bytes")
    return nqn


def _decode_count(value: FileNode) -> int:
    wanted = f"a whole number from 1 to {_MOST_PATHS}"
    try:
        return _count.parse(value.text(wanted))
    except ValueError as error:
        raise value.refuse(str(error)) from None


def _decode_paths(value: FileNode) -> tuple[str, ...]:
    paths: list[str] = []
    for item in value.items("a list of paths"):
        path = item.text("a path such as tcp:10.0.0.2:4420")
        if not _PATH_LABEL.fullmatch(path):
            raise item.refuse("a path such as tcp:10.0.0.2:4420")
        if path in paths:
            raise ConfigError(f"{item.where}: {quoted(path)} is given twice")
        paths.append(path)
    if not 0 < len(paths) <= _MOST_PATHS:
        raise ConfigError(f"{value.where}: expected 1 to {_MOST_PATHS} paths")
    return tuple(paths)
