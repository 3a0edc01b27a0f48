"""From the kernel's bytes to values: pure functions, one per kind of attribute.

Each takes the bytes of one file and raises ValueError, with what is wrong,
when they hold no value. Formats: drivers/nvme/host/{sysfs,fabrics,multipath}.c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nvmeof_exporter.model import ANA_STATES, PATH_STATES, IoCounters

__all__ = [
    "Address",
    "address",
    "ana_state",
    "controller_state",
    "counter",
    "flag",
    "io_counters",
    "milliseconds",
    "padded_text",
    "required_text",
    "seconds",
    "seconds_or_off",
    "sectors",
    "subsystem_nqn",
    "text",
]

_SECTOR_BYTES = 512
_MILLISECONDS = 1000.0

#: ``stat`` has 11 fields since 2.6, 15 since 4.18, 17 since 5.5; more may come.
_MIN_STAT_FIELDS = 11
_MAX_STAT_FIELDS = 17

#: The kernel's counters are of 64 bits at most.
_MAX_COUNT = 2**64 - 1

_KNOWN_STATES = frozenset(PATH_STATES) - {"missing", "unknown"}
_KNOWN_ANA_STATES = frozenset(ANA_STATES) - {"unknown"}


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a controller's ``address``; ``""`` for what was not given."""

    traddr: str = ""
    trsvcid: str = ""
    host_traddr: str = ""
    host_iface: str = ""
    src_addr: str = ""


def text(raw: bytes) -> str:
    """Decode a text; padding (blanks, NULs, newline) goes, bytes that are no UTF-8 become U+FFFD.

    A NUL inside becomes U+FFFD as well: the exposition formats cannot carry it.
    """
    return raw.rstrip(b"\0 \t\r\n").decode("utf-8", "replace").replace("\0", "\ufffd")


def padded_text(raw: bytes) -> str:
    """Decode a text of fixed width; some devices pad serial numbers on the left."""
    return text(raw).strip()


def required_text(raw: bytes) -> str:
    """Decode a text that must not be empty."""
    value = text(raw)
    if not value:
        raise ValueError("the file is empty")
    return value


def subsystem_nqn(raw: bytes) -> str:
    """Decode ``subsysnqn``; ``""`` while a controller connects for the first time.

    It has no subsystem then, and the kernel prints a null pointer.
    """
    # Not a text like others: blanks at its end tell it from another NQN.
    own = raw.rstrip(b"\0").removesuffix(b"\n").decode("utf-8", "replace").replace("\0", "\ufffd")
    if not own.strip():
        raise ValueError("the file is empty")
    return "" if own in {"(efault)", "(null)"} else own


def controller_state(raw: bytes) -> tuple[str, str]:
    """Decode ``state`` into (one of PATH_STATES, the kernel's own text)."""
    own = required_text(raw)
    if own in _KNOWN_STATES:
        return own, own
    # "deleting (no IO)": the controller is going and takes no requests any more.
    if own.startswith("deleting"):
        return "deleting", own
    return "unknown", own


def ana_state(raw: bytes) -> str:
    """Decode ``ana_state`` into one of ANA_STATES."""
    own = required_text(raw)
    return own if own in _KNOWN_ANA_STATES else "unknown"


def address(raw: bytes) -> Address:
    """Split ``address``: fabrics ``key=value,...``; PCIe and old FC a bare address.

    Values may hold ``:`` and ``=`` (FC names, scoped IPv6), so each part is
    split at its first ``=`` only. Unknown keys are passed over.
    """
    own = text(raw)
    if "=" not in own:
        return Address(traddr=own)
    parts = dict(part.split("=", 1) for part in own.split(",") if "=" in part)
    return Address(
        traddr=parts.get("traddr", ""),
        trsvcid=parts.get("trsvcid", ""),
        host_traddr=parts.get("host_traddr", ""),
        host_iface=parts.get("host_iface", ""),
        src_addr=parts.get("src_addr", ""),
    )


def counter(raw: bytes) -> int:
    """Decode a whole number that is not negative and fits in 64 bits."""
    own = required_text(raw).strip()
    if not (own.isascii() and own.isdecimal()):
        raise ValueError(f"expected a whole number, found {own!r}")
    return _bounded(int(own))


def _bounded(number: int) -> int:
    if number > _MAX_COUNT:
        raise ValueError("expected a number of 64 bits, found a greater one")
    return number


def seconds(raw: bytes) -> float:
    """Decode a time in whole seconds."""
    return float(counter(raw))


def milliseconds(raw: bytes) -> float:
    """Decode a time in milliseconds into seconds."""
    return counter(raw) / _MILLISECONDS


def seconds_or_off(raw: bytes) -> float:
    """Decode a time-out in seconds; ``off`` (and -1, as it is set) means never: infinity."""
    own = required_text(raw)
    return math.inf if own in {"off", "-1"} else float(counter(raw))


def sectors(raw: bytes) -> int:
    """Decode ``size`` (512-byte sectors) into bytes."""
    return counter(raw) * _SECTOR_BYTES


def flag(raw: bytes) -> bool:
    """Decode a module parameter of type bool (``Y`` or ``N``)."""
    own = required_text(raw)
    if own in {"Y", "1"}:
        return True
    if own in {"N", "0"}:
        return False
    raise ValueError(f"expected Y or N, found {own!r}")


def io_counters(raw: bytes) -> IoCounters:
    """Decode ``stat`` of a block device."""
    fields = raw.rstrip(b"\0").split()[:_MAX_STAT_FIELDS]
    if len(fields) < _MIN_STAT_FIELDS:
        raise ValueError(f"expected at least {_MIN_STAT_FIELDS} numbers, found {len(fields)}")
    if not b"".join(fields).isdigit():
        raise ValueError(f"expected whole numbers, found {raw!r}")
    numbers = tuple(map(int, fields))
    _bounded(max(numbers))
    return IoCounters(*numbers)
