"""Scripts: timed steps that befall a node, each with one line that says what to look at.

As a file::

    length: 60            # seconds, then anew
    node:                 # as given at connect time, where it is not the default: see Settings
      keep_alive_tmo: 10
    steps:
      - at: 5
        say: the path of the first interface falls silent
        do: black-hole    # any of ACTIONS
        to: ["tcp:10.0.0.2:4420%h0"]
      - {at: 30, say: it is well again, do: heal, to: ["tcp:10.0.0.2:4420%h0"]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from nvmeof_exporter.demo.devices import Timeouts

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.demo.devices import Namespace
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["ACTIONS", "Player", "Script", "ScriptError", "Settings", "Step"]

_OFF = -1


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


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How every path was connected, in seconds, and the module's time-out.

    Names and meanings are the kernel's; -1 is ``off``, a keep-alive of 0 none.
    """

    keep_alive_tmo: Annotated[int, msgspec.Meta(ge=0)] = 5
    ctrl_loss_tmo: Annotated[int, msgspec.Meta(ge=_OFF)] = 180
    fast_io_fail_tmo: Annotated[int, msgspec.Meta(ge=_OFF)] = _OFF
    reconnect_delay: Annotated[int, msgspec.Meta(ge=1)] = 2
    io_timeout: Annotated[int, msgspec.Meta(ge=1)] = 30

    @property
    def timeouts(self) -> Timeouts:
        """The settings of a path."""
        return Timeouts(
            keep_alive=self.keep_alive_tmo,
            reconnect_delay=self.reconnect_delay,
            ctrl_loss=None if self.ctrl_loss_tmo == _OFF else self.ctrl_loss_tmo,
            fast_io_fail=None if self.fast_io_fail_tmo == _OFF else self.fast_io_fail_tmo,
        )


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps in order of time, repeated every ``length`` seconds.

    ``about`` says in a few words what happens, ``node`` what is set on it.
    """

    length: float
    steps: tuple[Step, ...]
    about: str = ""
    node: Settings = Settings()


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
