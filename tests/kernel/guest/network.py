"""Links between the initiator and its target, and what can go wrong with them.

The target lives in a network namespace of its own, at the far ends of veth pairs.
Everything here works without starting a process where it matters when it happens:
under emulation ``nft`` alone takes seconds.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "LINKS",
    "BlackHole",
    "create_rdma_links",
    "create_target_side",
    "create_tcp_links",
    "replace_rdma_device",
    "set_link",
    "target_side",
]

#: Numbers of the usual links; link N of the initiator is 10.0.N.1 on ``hN``.
LINKS = (1, 2)

_TARGET = Path("/run/netns/target")
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1  # linux/sockios.h, linux/if.h


def create_target_side() -> None:
    """The target's network namespace, still without links."""
    subprocess.run(["ip", "netns", "add", _TARGET.name], check=True)
    _ip_batch(["link set lo up"], "-netns", _TARGET.name)


def create_tcp_links(*links: int) -> None:
    """Veth pairs ``hN``-``tN`` with 10.0.N.1 here and 10.0.N.2 in the target's namespace."""
    here, there = [], []
    for link in links:
        here += [
            f"link add h{link} type veth peer name t{link} netns {_TARGET.name}",
            f"address add 10.0.{link}.1/24 dev h{link}",
            f"link set h{link} up",
        ]
        there += [f"address add 10.0.{link}.2/24 dev t{link}", f"link set t{link} up"]
    _ip_batch(here)
    _ip_batch(there, "-netns", _TARGET.name)


def create_rdma_links() -> None:
    """Soft-RoCE devices ``rxeN`` over ``rN`` (10.1.N.1); old kernels know them here only."""
    commands = []
    for link in LINKS:
        commands += [
            f"link add r{link} type veth peer name p{link}",
            f"address add 10.1.{link}.1/24 dev r{link}",
            f"link set r{link} up",
            f"link set p{link} up",
        ]
    _ip_batch(commands)
    for link in LINKS:
        _add_rdma_device(link)


def replace_rdma_device(link: int) -> None:
    """Remove ``rxeN`` and make it anew, as a reset of a real adapter would."""
    subprocess.run(["rdma", "link", "delete", f"rxe{link}"], check=True)
    _add_rdma_device(link)


def _add_rdma_device(link: int) -> None:
    command = ["rdma", "link", "add", f"rxe{link}", "type", "rxe", "netdev", f"r{link}"]
    subprocess.run(command, check=True)


def _ip_batch(commands: list[str], *options: str) -> None:
    subprocess.run(
        ["ip", *options, "-batch", "-"], input="\n".join(commands), text=True, check=True
    )


@contextmanager
def target_side() -> Iterator[None]:
    """Be in the target's network namespace, with this thread alone, while the block runs."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(_TARGET, os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(here)
        os.close(there)
        os.close(here)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns of the network namespace")


def set_link(name: str, *, up: bool) -> None:
    """Raise or lower the interface ``name`` of the current network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", name.encode(), 0)
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", answer, 16)
        wanted = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", name.encode(), wanted))


class BlackHole:
    """Links of the target whose packets vanish while their carrier stays: a silent loss.

    The rules are loaded once; a fault then adds an element to a set. libnftables
    answers within milliseconds, and its socket stays in the target's namespace.
    """

    _RULES = """
    table inet lab {
        set silent { type ifname; }
        chain arriving { type filter hook input priority 0; iifname @silent drop; }
        chain leaving { type filter hook output priority 0; oifname @silent drop; }
    }
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnftables.so.1")
        self._library.nft_ctx_new.restype = ctypes.c_void_p
        with target_side():
            self._context = ctypes.c_void_p(self._library.nft_ctx_new(0))
            self._command(self._RULES)

    def swallow(self, link: int) -> None:
        """Drop whatever crosses ``link`` from now on, in both directions."""
        self._command(f'add element inet lab silent {{ "t{link}" }}')

    def restore(self) -> None:
        """Let every link carry packets again."""
        self._command("flush set inet lab silent")

    def _command(self, text: str) -> None:
        with target_side():
            if self._library.nft_run_cmd_from_buffer(self._context, text.encode()):
                raise RuntimeError(f"nftables refused: {text}")
