"""What the exporter and the machine are: versions, settings, remembered paths."""

from __future__ import annotations

import importlib.metadata
import math
import platform
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nvmeof_exporter import __version__
from nvmeof_exporter.config.explain import explain
from nvmeof_exporter.policy import preset_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.config import Config

__all__ = ["as_json", "disk_lines", "host_names", "settings", "versions"]

_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_OS_RELEASE = "/etc/os-release"
_MOST_BYTES = 4 << 20


def versions() -> dict[str, Any]:
    """Versions of the exporter, its libraries, Python, the kernel and the distribution."""
    return {
        "exporter": __version__,
        "python": platform.python_version(),
        "libraries": _libraries(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "distribution": _distribution(),
    }


def host_names() -> tuple[str, ...]:
    """The names of this host, as the kernel and Python know them."""
    return tuple(dict.fromkeys(filter(None, (socket.gethostname(), platform.node()))))


def settings(config: Config) -> dict[str, Any]:
    """Every setting with its value and origin, the expected paths, and the policy in force.

    Of ``web.config.file``, which may hold passwords, only the name is told. Raises ConfigError.
    """
    policy = config.policy or preset_policy()
    return {
        "settings": {
            setting.name: {"value": setting.value, "from": setting.origin}
            for setting in explain(config)
        },
        "expected": [
            {"nqn": one.nqn, "count": one.count, "paths": one.paths} for one in config.expected
        ],
        "policy": _finite(msgspec.to_builtins(policy)),
    }


def disk_lines(procfs: str) -> bytes:
    """The lines of ``diskstats`` about NVMe disks. Raises OSError."""
    with open(f"{procfs}/diskstats", "rb") as file:
        lines = file.read(_MOST_BYTES).splitlines(keepends=True)
    return b"".join(line for line in lines if b" nvme" in line)


def as_json(value: object) -> bytes:
    """Return a value as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _libraries() -> Mapping[str, str]:
    try:
        wanted = importlib.metadata.requires("nvmeof-exporter") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    names = [m[0] for r in wanted if "extra ==" not in r and (m := _REQUIREMENT.match(r))]
    return {name: _version(name) for name in names}


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _distribution() -> str:
    try:
        text = Path(_OS_RELEASE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return match[1] if match else ""


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same with ``off`` for infinity, which JSON does not have; limits are times."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return "off" if isinstance(value, float) and math.isinf(value) else value
