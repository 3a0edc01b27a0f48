"""What this process may do: root in a container often may not."""

from __future__ import annotations

from pathlib import Path

#: Bits of include/uapi/linux/capability.h.
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21


def has_capabilities(*bits: int) -> bool:
    """Whether all of these are in the effective set."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    effective = int(status["CapEff"], 16)
    return all(effective & 1 << bit for bit in bits)
