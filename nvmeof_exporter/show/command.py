"""``nvmeof-exporter show``: what is asked for, and in which form it is told."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from nvmeof_exporter.client import NoAnswer
from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.config.values import parse_duration
from nvmeof_exporter.show.happened import events_text
from nvmeof_exporter.show.node import Layout, node_text
from nvmeof_exporter.show.origin import origin_of
from nvmeof_exporter.show.screen import watch
from nvmeof_exporter.show.table import Paint
from nvmeof_exporter.terminal import columns, obeys, printable, wants_colour, writing
from nvmeof_exporter.view.events import MOST_EVENTS, EventsView

if TYPE_CHECKING:
    import argparse
    from typing import TextIO

    from nvmeof_exporter.config import Config
    from nvmeof_exporter.show.origin import Origin
    from nvmeof_exporter.view.model import NodeView

__all__ = ["add_arguments", "run"]

_OUTPUTS = ("text", "wide", "json", "yaml")
_DEFAULT_INTERVAL = "2s"
_DEFAULT_EVENTS = "20"
_SHORTEST, _LONGEST = 0.1, 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command knows."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help="The running exporter to ask, such as http://127.0.0.1:10067; empty = read the "
        "tree at --path.sysfs (default: the exporter at --web.listen-address of this machine, "
        "or else the tree).",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=_OUTPUTS,
        default=_OUTPUTS[0],
        help="For people, the same with everything that is known, or for machines (default: text).",
    )
    parser.add_argument(
        "-w",
        "--watch",
        nargs="?",
        const=_DEFAULT_INTERVAL,
        metavar="DURATION",
        help=f"Go on and show it anew so often, until Ctrl-C (default: {_DEFAULT_INTERVAL}).",
    )
    parser.add_argument(
        "--events",
        nargs="?",
        const=_DEFAULT_EVENTS,
        metavar="N",
        help=f"What happened lately, instead: the last N events (default: {_DEFAULT_EVENTS}).",
    )


def run(args: argparse.Namespace, config: Config) -> int:
    """Show it. Returns the exit status.

    Raises:
        ConfigError: a flag makes no sense, or the exporter that was named does not answer.

    """
    interval = _interval(args.watch)
    number = _number(args.events)
    with closing(origin_of(config, args.url)) as origin, writing(sys.stdout) as stream:
        shown = _Shown(origin, args.output, number, stream)
        try:
            if interval is None:
                stream.write(shown.text())
            else:
                shown.text()  # a bad address ends it before there is a picture
                watch(stream, shown.picture, interval, in_place=shown.in_place)
        except NoAnswer as reason:
            raise ConfigError(str(reason)) from reason
    return 0


class _Shown:
    """What is shown, in the form that was asked for.

    Args:
        origin: where it is from.
        output: one of _OUTPUTS.
        number: of how many events; None: the node.
        stream: where it is going to be written.

    """

    def __init__(self, origin: Origin, output: str, number: int | None, stream: TextIO) -> None:
        self._origin = origin
        self._output = output
        self._number = number
        self._stream = stream

    def text(self, *, again: bool = False) -> str:
        """Make it; ``again``: it is going to be one of several. Raises NoAnswer."""
        view: NodeView | EventsView
        if self._number is not None:
            view = self._origin.events(self._number)
            told = str(self._origin.exporter)
        else:
            view, told = self._origin.view()
        if self._output == "json":
            return _json(view, indent=0 if again else 2)
        if self._output == "yaml":
            return ("---\n" if again else "") + _yaml(view)
        if isinstance(view, EventsView):
            return events_text(view, told, self._layout())
        return node_text(view, told, self._layout())

    @property
    def in_place(self) -> bool:
        """Whether one picture may take the place of another."""
        return self._for_people and obeys(self._stream, os.environ)

    @property
    def _for_people(self) -> bool:
        return self._output in {"text", "wide"}

    def picture(self) -> str:
        """Make one of several; where the exporter is gone for now, it says so."""
        try:
            text = self.text(again=True)
        except NoAnswer as reason:
            if not self._for_people:
                raise
            text = f"{printable(str(reason))}; trying again\n"
        return text + "\n" if self._for_people and not self.in_place else text

    def _layout(self) -> Layout:
        paint = Paint(wants_colour(self._stream, os.environ))
        return Layout(paint, columns(self._stream), wide=self._output == "wide")


def _json(view: NodeView | EventsView, indent: int) -> str:
    """JSON with nothing in it that a terminal obeys."""
    text = msgspec.json.encode(view).decode()
    if indent:
        text = msgspec.json.format(text, indent=indent)
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line) for line in lines) + "\n"


def _escaped(line: str) -> str:
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)


def _yaml(view: NodeView | EventsView) -> str:
    import yaml  # noqa: PLC0415  # only where it is asked for

    # The pure one takes seconds for a large node.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(msgspec.to_builtins(view), Dumper=dumper, sort_keys=False)
    return text


def _interval(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            raise ConfigError(f"--watch: {quoted(text)}: expected seconds, or {error}") from error
    if not _SHORTEST <= seconds <= _LONGEST:
        raise ConfigError(f"--watch: {quoted(text)}: expected from 100ms to 1h")
    return seconds


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_EVENTS))):
        number = 0
    else:
        number = int(text)
    if not 1 <= number <= MOST_EVENTS:
        raise ConfigError(f"--events: {quoted(text)}: expected a number from 1 to {MOST_EVENTS}")
    return number
