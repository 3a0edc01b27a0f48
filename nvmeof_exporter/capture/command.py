"""The ``capture`` command: everything somebody else needs to see what this node showed."""

from __future__ import annotations

import os
import secrets
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from nvmeof_exporter.capture import facts
from nvmeof_exporter.capture.bundle import FileExists, archive, publish
from nvmeof_exporter.capture.contents import assemble, gather, manifest_of
from nvmeof_exporter.capture.exporter import names_in
from nvmeof_exporter.capture.reading import CannotReadError, PatientReader
from nvmeof_exporter.capture.redact import Redactor
from nvmeof_exporter.capture.tree import capture_tree
from nvmeof_exporter.capture.verify import refuse_broken
from nvmeof_exporter.client import Exporter, url_of
from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.config.errors import quoted

if TYPE_CHECKING:
    import argparse

    from nvmeof_exporter.capture.contents import Part
    from nvmeof_exporter.capture.tree import Tree
    from nvmeof_exporter.config import Config

__all__ = ["add_arguments", "run"]

_SUFFIX = ".tar.xz"
_EXIT_OK, _EXIT_FAILED, _EXIT_INTERRUPTED = 0, 1, 130
_KEY_BYTES = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this command knows."""
    parser.add_argument(
        "file", metavar="FILE.tar.xz", help="The bundle to make; nothing is ever overwritten."
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="Where the running exporter answers, such as http://USER:PASSWORD@127.0.0.1:10067 "
        "(default: by --web.listen-address).",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="Replace NQNs, serial numbers, addresses, UUIDs and host names, each everywhere by "
        "the same stand-in of its form; addresses in one subnet stay in one subnet.",
    )


def run(args: argparse.Namespace, config: Config) -> int:
    """Make the bundle and say what is in it.

    Returns the exit status: 0, 1 when nothing can be read or the file not be written, 130
    after Ctrl-C.

    Raises:
        ConfigError: FILE exists, or a name given leads nowhere.

    """
    try:
        return _run(args, config)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing is left", _EXIT_INTERRUPTED)


def _run(args: argparse.Namespace, config: Config) -> int:
    path: str = args.file
    exporter = _exporter(args.url, config)
    _refuse_file(path)
    refuse_broken(config.path_sysfs)
    if not os.path.isdir(config.path_sysfs):
        raise ConfigError(f"--path.sysfs: {config.path_sysfs!r} is no directory")
    now = time.time()
    try:
        with closing(PatientReader()) as read:
            tree = capture_tree(config.path_sysfs, read)
    except CannotReadError as reason:
        return _fail(f"the process that reads cannot be started: {reason}")
    if not any(entry.kind == "f" for entry in tree.entries):
        return _fail(
            f"--path.sysfs: {config.path_sysfs!r}: no file of a tree like /sys could be read in "
            "it; nothing is written"
        )
    parts = gather(config, exporter, named=args.url is not None)
    redactor = _taught(tree, parts) if args.redact else None
    manifest = manifest_of(tree, parts, exporter, now)
    entries = assemble(tree, parts, manifest, redactor)
    top = _plain(Path(path).name.removesuffix(_SUFFIX), redactor)
    content = archive(entries, top, now)
    try:
        publish(path, content)
    except FileExists:
        raise ConfigError(_exists(path)) from None
    except OSError as error:
        return _fail(f"{path}: {error.strerror or error}; nothing is left")
    sys.stdout.write(_told(path, content, tree, parts, redacted=args.redact))
    return _EXIT_OK


def _fail(reason: str, status: int = _EXIT_FAILED) -> int:
    sys.stderr.write(f"nvmeof-exporter: error: {reason}\n")
    return status


def _exporter(url: str | None, config: Config) -> Exporter:
    try:
        return Exporter.at(url_of(config.web_listen_address[0]) if url is None else url)
    except ValueError as expected:
        raise ConfigError(f"--url: found {quoted(url or '')}, {expected}") from None


def _refuse_file(path: str) -> None:
    """Refuse what could not be written before time is spent on it."""
    name = os.path.basename(path)
    if not name.endswith(_SUFFIX) or name == _SUFFIX:
        raise ConfigError(f"{path!r}: expected a file name that ends in {_SUFFIX}")
    if os.path.lexists(path):
        raise ConfigError(_exists(path))
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        raise ConfigError(f"{path!r}: there is no directory {directory!r}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigError(f"{path!r}: nothing may be written into {directory!r}")


def _exists(path: str) -> str:
    return f"{path!r} exists already; nothing is overwritten"


def _taught(tree: Tree, parts: list[Part]) -> Redactor:
    """A redactor that knows the names of the tree, of this host, and of others told of."""
    redactor = Redactor(secrets.token_bytes(_KEY_BYTES))
    redactor.learn_hosts(facts.host_names())
    for part in parts:
        redactor.learn_hosts(sorted(names_in(part.name, part.content)))
    for entry in tree.entries:
        if entry.kind == "f":
            redactor.learn(entry.name.rpartition("/")[2], entry.content)
    return redactor


def _plain(name: str, redactor: Redactor | None) -> str:
    return name if redactor is None else os.fsdecode(redactor.text(os.fsencode(name)))


def _told(path: str, content: bytes, tree: Tree, parts: list[Part], *, redacted: bool) -> str:
    kinds = [entry.kind for entry in tree.entries]
    names = ", ".join(part.name for part in parts if not part.problem)
    lines = [f"{path}: {len(content):,} bytes; {kinds.count('f'):,} files of the tree, {names}"]
    if tree.missing:
        lines.append(f"not readable: {len(tree.missing)} of the tree (see unreadable.txt)")
    for problem in dict.fromkeys(part.problem for part in parts if part.problem):
        names = ", ".join(part.name for part in parts if part.problem == problem)
        lines.append(f"not there: {names}: {problem}")
    if redacted:
        lines.append("NQNs, serial numbers, addresses, UUIDs and host names are replaced")
    else:
        lines.append("it names NQNs, serial numbers and addresses; --redact replaces them")
    return "".join(f"{line}\n" for line in lines)
