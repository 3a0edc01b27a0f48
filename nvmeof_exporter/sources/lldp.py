"""Which switch is at the other end of each cable, as lldpd has heard it.

lldpd's own ``lldpcli`` is asked, for one list; it changes nothing and sends nothing on
the wire. Its ``json0`` format has the same structure for any number of neighbours.
What a neighbour says of itself is that neighbour's word: it may be anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["LldpFailed", "LldpUnavailable", "parse", "switches"]

_COMMAND = ("lldpcli",)
_SHOW = ("-f", "json0", "show", "neighbors")

_SECONDS = 2.0
_SECONDS_TO_DIE = 0.5

#: A neighbour takes 1.5 KiB, an interface keeps 32 of them at most.
_MOST_BYTES = 4 << 20
_MOST_ERROR_BYTES = 4096
_LONGEST_REASON = 200
_CHUNK_BYTES = 1 << 16

#: How lldpcli begins its lines: ``2026-11-30T13:47:52 [WARN/control] ``.
_PREFIX = re.compile(r"^\S+ \[\w+/\w+\] ")

#: What connect(2) says when lldpd does not run: no socket, or one that it left behind.
_NOT_RUNNING = ("No such file or directory", "Connection refused")

#: The standard's own protocol: the name a switch has in others (CDP…) is another one.
_PROTOCOL = "LLDP"

#: Capabilities of what forwards frames (IEEE 802.1AB, system capabilities TLV).
_FORWARDING = frozenset({"Bridge", "Router"})


class LldpUnavailable(Exception):  # noqa: N818  # a condition to live with, no error
    """There is no lldpd to ask on this node; the text says why."""


class LldpFailed(Exception):  # noqa: N818  # named like the other
    """lldpd or lldpcli is there and gives no answer that makes sense; the text says why."""


class _Neighbour(NamedTuple):
    """One neighbour on an interface, as it describes itself."""

    netdev: str
    identity: str
    protocol: str
    forwards: bool


def switches(command: Sequence[str] = _COMMAND, seconds: float = _SECONDS) -> dict[str, str]:
    """Ask lldpd for the switch behind each interface.

    Args:
        command: lldpcli, with what else it needs.
        seconds: to wait for its answer.

    Returns:
        As ``parse`` does. An interface whose carrier is lost has no neighbour any more.

    Raises:
        LldpUnavailable: lldpcli is not installed, or lldpd does not run.
        LldpFailed: no permission, no answer in time, too long a one, or one that
            makes no sense.

    """
    status, output, errors = _run([*command, *_SHOW], seconds)
    if status:
        reason = _reason(errors) or f"{command[0]} ended with status {status}"
        if reason.endswith(_NOT_RUNNING):
            raise LldpUnavailable(f"lldpd does not run: {reason}")
        raise LldpFailed(reason)
    return parse(output)


def parse(output: bytes) -> dict[str, str]:
    """Read the answer to ``show neighbors`` in ``json0``.

    Returns:
        The identity of the switch (``mac 02:00:00:00:00:01``: kind and value of its
        chassis ID), by interface. On a port with several neighbours those that bridge or
        route are preferred to mere stations (a virtual machine, the firmware of a card). An
        interface whose neighbours are still of several identities is left out.

    Raises:
        LldpFailed: it is no JSON, or of another format.

    """
    try:
        document = json.loads(output.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        raise LldpFailed(f"lldpcli answered what is no JSON: {error}") from error
    if not isinstance(document, dict) or "lldp" not in document:
        raise LldpFailed("lldpcli answered JSON without a list of neighbours")
    by_netdev: dict[str, list[_Neighbour]] = {}
    for neighbour in _neighbours(document):
        by_netdev.setdefault(neighbour.netdev, []).append(neighbour)
    return {
        netdev: identity
        for netdev, neighbours in by_netdev.items()
        if (identity := _switch(neighbours))
    }


def _neighbours(document: dict[str, object]) -> Iterator[_Neighbour]:
    """Yield those that can be told apart; what lacks a name or a chassis ID is skipped."""
    for listed in _objects(document.get("lldp")):
        for interface in _objects(listed.get("interface")):
            netdev = _text(interface.get("name"))
            for chassis in _objects(interface.get("chassis")):
                identity = _identity(chassis)
                if netdev and identity:
                    protocol = _text(interface.get("via"))
                    yield _Neighbour(netdev, identity, protocol, _forwards(chassis))


def _identity(chassis: dict[str, object]) -> str:
    for known in _objects(chassis.get("id")):
        kind, value = _text(known.get("type")), _text(known.get("value"))
        if value:
            return f"{kind} {value}".strip()
    return ""


def _forwards(chassis: dict[str, object]) -> bool:
    return any(
        capability.get("enabled") is True and _text(capability.get("type")) in _FORWARDING
        for capability in _objects(chassis.get("capability"))
    )


def _switch(neighbours: list[_Neighbour]) -> str:
    """Return the identity of the one neighbour that is the switch; ``""`` when it is not clear."""
    standard = [n for n in neighbours if n.protocol == _PROTOCOL] or neighbours
    likely = [n for n in standard if n.forwards] or standard
    identities = {neighbour.identity for neighbour in likely}
    return identities.pop() if len(identities) == 1 else ""


def _objects(value: object) -> Iterator[dict[str, object]]:
    """Yield the objects of a list; other formats than ``json0`` have a single one bare."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            yield item


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _reason(errors: bytes) -> str:
    """Return the last line that lldpcli complained with."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return _PREFIX.sub("", lines[-1])[:_LONGEST_REASON] if lines else ""


def _run(command: list[str], seconds: float) -> tuple[int, bytes, bytes]:
    """Run a program to its end; return its status, its output, and the start of its complaints.

    Raises:
        LldpUnavailable: there is no such program.
        LldpFailed: it may not be run, takes too long, or says too much.

    """
    name = command[0]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},  # its complaints are read
            start_new_session=True,  # a wrapper is ended with what it started
        )
    except FileNotFoundError as error:
        raise LldpUnavailable(f"{name} is not installed, or not in PATH") from error
    except OSError as error:
        raise LldpFailed(f"{name} cannot be run: {error.strerror}") from error
    deadline = time.monotonic() + seconds
    try:
        output, errors = _read(process, deadline)
        return process.wait(max(0.0, deadline - time.monotonic())), output, errors
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise LldpFailed(f"{name} did not answer within {seconds:g} s") from error
    except OSError as error:
        raise LldpFailed(f"{name}: {error.strerror}") from error
    finally:
        _end(process)


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Read both pipes to their ends: the output, and the last of the complaints.

    Raises:
        TimeoutError: they were still open at the deadline.
        LldpFailed: the output is too long.

    """
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, taken in ((process.stdout, output), (process.stderr, errors)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, taken)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            ready = selector.select(remaining) if remaining > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            del errors[:-_MOST_ERROR_BYTES]
            if len(output) > _MOST_BYTES:
                raise LldpFailed(f"lldpcli answered more than {_MOST_BYTES} bytes")
    return bytes(output), bytes(errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the program behind, short of one that even SIGKILL does not end."""
    running = process.returncode is None  # not waited for: its number is nobody else's
    if running:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    if running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_DIE)
