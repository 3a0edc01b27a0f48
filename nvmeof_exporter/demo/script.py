"""Scripts: timed steps that befall a node, each with one line that says what to look at.

As a file::

    length: 60            # seconds, then anew
    steps:
      - at: 5
        say: the path of the first interface falls silent
        do: black-hole    # any of ACTIONS
        to: ["tcp:10.0.0.2:4420%h0"]
      - {at: 30, say: it is well again, do: heal, to: ["tcp:10.0.0.2:4420%h0"]}
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.demo.devices import Namespace
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["SCRIPTS", "Player", "Script", "ScriptError", "Step", "load_script"]

_DB1 = "tcp:10.0.0.2:4420%h0"
_DB2 = "tcp:10.0.1.2:4420%h1"


class ScriptError(Exception):
    """A script cannot be used; the message names the file or step, and the reason."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that happens.

    Args:
        at: seconds after the script's start.
        say: what to tell the person who watches.
        do: a key of ACTIONS, or "" for words only.
        to: what it is done to: path labels, interfaces, or NQN/NSID of namespaces.
        group: of ``ana``.
        state: of ``ana``.

    """

    at: float
    say: str
    do: str = ""
    to: tuple[str, ...] = ()
    group: int = 1
    state: str = ""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps in order of time, repeated every ``length`` seconds."""

    length: float
    steps: tuple[Step, ...]


def _on_path(action: Callable[[Node, Any], object]) -> Callable[[Node, Step, str], object]:
    return lambda node, _step, target: action(node, node.connection(target))


def _on_netdev(action: Callable[[Node, Any], object]) -> Callable[[Node, Step, str], object]:
    return lambda node, _step, target: action(node, node.netdevs[target])


def _on_namespace(action: Callable[[Node, Any], object]) -> Callable[[Node, Step, str], object]:
    return lambda node, _step, target: action(node, _namespace(node, target))


def _set_ana(node: Node, step: Step, target: str) -> None:
    node.set_ana(node.connection(target), step.group, step.state)


def _connect(node: Node, _step: Step, target: str) -> None:
    connection = node.connection(target)
    if connection.controller is None and connection.answering:
        node.connect(connection, renumber=True)


def _namespace(node: Node, target: str) -> Namespace:
    for subsystem in node.subsystems:
        for namespace in subsystem.namespaces:
            if f"{subsystem.nqn}/{namespace.nsid}" == target:
                return namespace
    raise KeyError(target)


#: What a step can do, by name, to each of its targets.
ACTIONS: dict[str, Callable[[Any, Step, str], object]] = {
    "black-hole": _on_path(lambda node, path: node.black_hole(path)),
    "heal": _on_path(lambda node, path: node.heal(path)),
    "port-removed": _on_path(lambda node, path: node.port_removed(path)),
    "port-restored": _on_path(lambda node, path: node.port_restored(path)),
    "reset": _on_path(lambda node, path: node.reset(path)),
    "disconnect": _on_path(lambda node, path: node.disconnect(path)),
    "connect": _connect,
    "ana": _set_ana,
    "link-down": _on_netdev(lambda node, netdev: node.link_down(netdev)),
    "link-up": _on_netdev(lambda node, netdev: node.link_up(netdev)),
    "disable": _on_namespace(lambda node, namespace: node.disable(namespace)),
    "enable": _on_namespace(lambda node, namespace: node.enable(namespace)),
}

_FAILOVERS = Script(
    length=90,
    steps=(
        Step(0, 'All is well: nvmeof_subsystem_redundancy{level="redundant"} is 1 for both.'),
        Step(
            6,
            f"The target's port behind {_DB1} is gone: nvmeof_path_state says connecting, "
            "I/O moves at once.",
            "port-removed",
            (_DB1,),
        ),
        Step(
            14,
            "The port is back: live at the next attempt, nvmeof_path_outage_seconds counts one.",
            "port-restored",
            (_DB1,),
        ),
        Step(
            22,
            f"ANA group 1 is inaccessible over {_DB1}: no controller leaves live, yet I/O moves; "
            "see nvmeof_namespace_paths.",
            "ana",
            (_DB1,),
            1,
            "inaccessible",
        ),
        Step(
            30,
            "ANA group 1 is optimized again: nvmeof_failbacks_total.",
            "ana",
            (_DB1,),
            1,
            "optimized",
        ),
        Step(
            38,
            f"Packets over {_DB1} vanish: its state stays live while I/O stands still; "
            "see nvmeof_namespace_path_io_stalled_seconds.",
            "black-hole",
            (_DB1,),
        ),
        Step(
            52,
            "Packets flow again; how long it took: nvmeof_failover_last_duration_seconds.",
            "heal",
            (_DB1,),
        ),
        Step(
            59,
            "Both links of the scratch subsystem are down: redundancy lost, its I/O waits; "
            "see nvmeof_namespace_io_stalled_seconds.",
            "link-down",
            ("h2", "h3"),
        ),
        Step(
            67,
            "Both links are up, the waiting I/O ends: nvmeof_namespace_io_stall_duration_seconds.",
            "link-up",
            ("h2", "h3"),
        ),
        Step(
            76,
            f"{_DB2} is disconnected: nvmeof_path_state says missing, for it is remembered.",
            "disconnect",
            (_DB2,),
        ),
        Step(
            83,
            "It is connected again, as another nvmeX: the same path label, the same series.",
            "connect",
            (_DB2,),
        ),
    ),
)

_CALM = Script(length=60, steps=(Step(0, "All is well, and stays so."),))

#: The scripts that come with the demonstration, for its own node.
SCRIPTS = {"failovers": _FAILOVERS, "calm": _CALM}


def load_script(name: str) -> Script:
    """Return a script by its name in SCRIPTS, or read it from a YAML file.

    Raises:
        ScriptError: no such script or file, or it makes no sense.

    """
    if name in SCRIPTS:
        return SCRIPTS[name]
    try:
        content = Path(name).read_text(encoding="utf-8")
        script = msgspec.convert(yaml.safe_load(content), Script)
    except FileNotFoundError:
        known = ", ".join(SCRIPTS)
        raise ScriptError(f"{name}: neither a file nor one of {known}") from None
    except OSError as error:
        raise ScriptError(f"{name}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:  # msgspec's errors are ValueErrors
        reason = " ".join(str(error).split())
        raise ScriptError(f"{name}: {reason}") from error
    _check(name, script)
    return script


def _check(name: str, script: Script) -> None:
    if not script.steps:
        raise ScriptError(f"{name}: there are no steps")
    before = 0.0
    for number, step in enumerate(script.steps, 1):
        if step.do and step.do not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise ScriptError(f"{name}: step {number}: {step.do!r}: expected one of {known}")
        if not before <= step.at < script.length:
            raise ScriptError(
                f"{name}: step {number}: at {step.at:g}: expected order of time, "
                f"from 0 to below the length of {script.length:g}"
            )
        before = step.at


class Player:
    """Lets a script befall a node, over and over.

    Raises:
        ScriptError: a step names what the node has not.

    """

    def __init__(self, node: Node, script: Script) -> None:
        self._node = node
        self._script = script
        self._position = 0
        self._round = node.now

    @property
    def length(self) -> float:
        """Seconds that the script takes."""
        return self._script.length

    def advance(self, seconds: float) -> list[Step]:
        """Let time pass; return the steps that were taken meanwhile."""
        end = self._node.now + seconds
        taken = []
        while self._next_due() <= end:
            self._node.advance(max(0.0, self._next_due() - self._node.now))
            step = self._script.steps[self._position]
            self._take(step)
            taken.append(step)
            self._position += 1
            if self._position == len(self._script.steps):
                self._position = 0
                self._round += self._script.length
        self._node.advance(end - self._node.now)
        return taken

    def _next_due(self) -> float:
        return self._round + self._script.steps[self._position].at

    def _take(self, step: Step) -> None:
        for target in step.to:
            self._act(step, target)

    def _act(self, step: Step, target: str) -> None:
        try:
            ACTIONS[step.do](self._node, step, target)
        except KeyError:
            raise ScriptError(f"{step.do}: the node has no {target!r}") from None
        except ValueError as error:
            raise ScriptError(f"{step.do} {target}: {error}") from error
