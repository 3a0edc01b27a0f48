"""``nvmeof-exporter demo``: the whole exporter over a make-believe node that has troubles.

Real time drives the node's virtual time in a thread; the exporter runs in the
main one, as it does over a real ``/sys``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import zlib
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nvmeof_exporter.config import ConfigError, resolve
from nvmeof_exporter.demo.kernel import KERNELS
from nvmeof_exporter.demo.links import LinkPipe
from nvmeof_exporter.demo.log import LogPipe
from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.script import Player, ScriptError
from nvmeof_exporter.demo.scripts import SCRIPTS, load_script
from nvmeof_exporter.demo.tree import Tree

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from nvmeof_exporter.config import Config, ListenAddress
    from nvmeof_exporter.demo.simulation import Node

__all__ = ["add_arguments", "run"]

#: How often the tree follows the node, in seconds of real time.
_STEP = 0.02

#: A process that was stopped for longer than this has not lived through it.
_LONGEST_STEP = 1.0

_MAX_SPEED = 100.0

_INTRODUCTION = """\
A make-believe node: kernel {kernel}, two cards of two ports each, one array over two TCP
paths, a scratch subsystem over two RDMA paths, and applications that keep reading and
writing. Nothing of this machine is touched; the tree is {tree}.

  metrics     {url}/metrics
  start page  {url}/
  at a glance nvmeof-exporter show --watch --url={url}

Stop with Ctrl-C. What happens (the script takes {length:g} s and begins anew):"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the demonstration."""
    known = "; ".join(f"{name}: {script.about}" for name, script in SCRIPTS.items())
    group = parser.add_argument_group("demonstration", f"Scripts are {known}.")
    group.add_argument(
        "--demo.script",
        dest="demo_script",
        metavar="NAME|FILE",
        default="failovers",
        help="What happens: a script, or a YAML file of the same form. Default: failovers.",
    )
    group.add_argument(
        "--demo.node",
        dest="demo_node",
        metavar="NAME",
        default="",
        help="Which node it is: each name makes a host NQN and a course of chance of its own, so "
        "that several can run side by side. Default: always the same one.",
    )
    group.add_argument(
        "--demo.speed",
        dest="demo_speed",
        metavar="FACTOR",
        default="1",
        help="How fast the node's time passes. Pauses shrink with it. Default: 1.",
    )
    group.add_argument(
        "--demo.kernel",
        dest="demo_kernel",
        metavar="VERSION",
        default="7.3",
        help=f"Which kernel is imitated: one of {', '.join(KERNELS)}. Default: 7.3.",
    )
    group.add_argument(
        "--demo.keep",
        dest="demo_keep",
        metavar="DIRECTORY",
        default="",
        help="Make the tree in this empty directory and keep it. "
        "Default: a temporary one, removed at the end.",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demonstration until SIGINT or SIGTERM; ``args.config`` is the configuration.

    Raises:
        ConfigError: a flag makes no sense, or the exporter cannot start.

    """
    from nvmeof_exporter.daemon import serve  # noqa: PLC0415  # nothing else here needs it

    speed = _speed(args.demo_speed)
    if args.demo_kernel not in KERNELS:
        known = ", ".join(KERNELS)
        raise ConfigError(f"--demo.kernel: {args.demo_kernel!r}: expected one of {known}")
    try:
        script = load_script(args.demo_script)
    except ScriptError as error:
        raise ConfigError(f"--demo.script: {error}") from error
    node = demo_node(
        args.demo_kernel,
        zlib.crc32(args.demo_node.encode()) or 1,
        name=args.demo_node,
        io_timeout=script.node.io_timeout,
        timeouts=script.node.timeouts,
    )
    player = Player(node, script)
    with (
        closing(_tree(node, args.demo_keep)) as tree,
        closing(LogPipe()) as log,
        closing(LinkPipe(node)) as links,
    ):
        config = _over(tree, log, args.config)
        _say(
            _INTRODUCTION.format(
                kernel=node.kernel.version,
                tree=tree.root,
                url=_url(config.web_listen_address[0]),
                length=player.length,
            )
        )
        animation = _Animation(_Stage(node, tree, log, links), player, speed)
        status = 0
        try:
            with _stopped_by_signals():
                animation.start()
                status = serve(config, lambda: links)
        finally:
            animation.stop()
    return status or animation.status


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """End what is within at a signal that comes before or after the exporter heeds it."""
    stopping = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(number, _exit) for number in stopping]
    try:
        yield
    except SystemExit:
        return
    finally:
        for number, handler in zip(stopping, previous, strict=True):
            signal.signal(number, handler)


def _exit(_number: int, _frame: object) -> None:
    raise SystemExit


@dataclass(frozen=True, slots=True)
class _Stage:
    """A node, and where the exporter sees it."""

    node: Node
    tree: Tree
    log: LogPipe
    links: LinkPipe

    def show(self, clock: float) -> None:
        """Show what happened since the last call, at ``clock`` of the exporter's clock."""
        offset = clock - self.node.now
        self.tree.sync()
        events = self.node.drain_events()
        self.links.write(events, offset)
        self.log.write(events, offset)


class _Animation(threading.Thread):
    """Lets the node live in real time, and tells what happens to it."""

    def __init__(self, stage: _Stage, player: Player, speed: float) -> None:
        super().__init__(name="demo", daemon=True)
        self._stage = stage
        self._player = player
        self._speed = speed
        self._ending = threading.Event()
        self.status = 0

    def run(self) -> None:
        try:
            self._live()
        except (ScriptError, OSError) as error:
            # Without its node the demonstration shows nothing true any more.
            sys.stderr.write(f"nvmeof-exporter: error: {error}\n")
            self.status = 1
            os.kill(os.getpid(), signal.SIGTERM)

    def _live(self) -> None:
        stage = self._stage
        before = time.monotonic()
        while not self._ending.wait(_STEP):
            now = time.monotonic()
            passed = min(now - before, _LONGEST_STEP) * self._speed
            before = now
            for step in self._player.advance(passed):
                _say(f"{_clock(stage.node.now)}  {step.say}")
            stage.show(now)

    def stop(self) -> None:
        """End the node's life, and wait for it."""
        self._ending.set()
        self.join()


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= _MAX_SPEED:
        raise ConfigError(
            f"--demo.speed: {text!r}: expected a number above 0, at most {_MAX_SPEED:g}"
        )
    return speed


def _tree(node: Node, directory: str) -> Tree:
    try:
        return Tree(node, Path(directory) if directory else None)
    except OSError as error:
        raise ConfigError(f"--demo.keep: {error.strerror or error}") from error


def _over(tree: Tree, log: LogPipe, config: Config) -> Config:
    """Point the configuration at the stage, in a way that a reload does not undo."""
    places = {
        "path.sysfs": (tree.sysfs,),
        "path.procfs": (tree.procfs,),
        "path.kmsg": (log.path,),
        "collector.kmsg": (str(config.collector_kmsg is not False).lower(),),
        "collector.netlink": (str(config.collector_netlink is not False).lower(),),
    }
    origin = config.origin
    return resolve(replace(origin, flags={**origin.flags, **places}))


def _url(address: ListenAddress) -> str:
    host = address.host or "127.0.0.1"
    return f"http://{address._replace(host=host)}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError:
        # Nobody listens any more; the exporter runs on.
        return
