"""What goes into a bundle beside the tree, and how it all stands in it."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.capture import facts
from nvmeof_exporter.capture.entry import Entry, fingerprint
from nvmeof_exporter.capture.exporter import ask
from nvmeof_exporter.capture.logs import Log, kernel_log, unit_log
from nvmeof_exporter.capture.verify import FORMAT, MANIFEST, Seal
from nvmeof_exporter.memory import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.capture.redact import Redactor
    from nvmeof_exporter.capture.tree import Tree
    from nvmeof_exporter.client import Exporter
    from nvmeof_exporter.config import Config

__all__ = ["Part", "assemble", "gather", "manifest_of"]

#: Where procfs of this machine is, and is looked for unless another place is named.
_OWN_PROCFS = "/proc"
_MOST_MEMORY_BYTES = 16 << 20

_README = """\
What `nvmeof-exporter capture` found on a node. Begin with capture.json, which says when and
with which versions, and what is not in here and why.

  sys/, proc/       the part of /sys and /proc that the exporter reads, and its neighbourhood;
                    an empty directory in place of a file: reading it failed (unreadable.txt)
  settings.json     every setting, and where it came from
  state/            the paths that the node remembered
  exporter/         metrics, events and status of the running exporter
  log/              the ends of the kernel's log and of the unit's journal

To see what the node showed:

  nvmeof-exporter serve --path.sysfs "$PWD/sys" --path.procfs "$PWD/proc" \\
      --path.state "$PWD/state" --web.listen-address 127.0.0.1:10067
  nvmeof-exporter check --path.sysfs "$PWD/sys"
"""


class Part(NamedTuple):
    """A file of the bundle, or why it is not there."""

    name: str
    content: bytes
    problem: str = ""


def gather(config: Config, exporter: Exporter, *, named: bool = False) -> list[Part]:
    """Everything but the tree. What describes this machine says nothing of another's tree.

    Args:
        config: tells where it is.
        exporter: the one that is asked.
        named: it was asked for by its address, so that what it tells counts in any case.

    """
    parts = [Part("settings.json", facts.as_json(facts.settings(config)))]
    foreign = "the tree is not this machine's"
    procfs = config.path_procfs
    if config.this_machine or procfs != _OWN_PROCFS:
        parts.append(_read("proc/diskstats", lambda: facts.disk_lines(procfs)))
        parts.append(_read("proc/version", Path(procfs, "version").read_bytes))
    else:
        parts += [Part(name, b"", foreign) for name in ("proc/diskstats", "proc/version")]
    if config.path_state:
        memory = Path(config.path_state, FILE_NAME)
        parts.append(_read(f"state/{FILE_NAME}", lambda: _beginning(memory)))
    tree = None if named else config.path_sysfs
    parts += [Part(*answer) for answer in ask(exporter, config.web_telemetry_path, tree)]
    other = Log(b"", foreign)
    if not config.path_kmsg:
        kernel = Log(b"", "--path.kmsg is empty")
    else:
        kernel = kernel_log(config.path_kmsg) if config.collects("kmsg") else other
    parts.append(Part("log/kernel.txt", *kernel))
    parts.append(Part("log/unit.txt", *(unit_log() if config.this_machine else other)))
    return parts


def manifest_of(
    tree: Tree, parts: list[Part], exporter: Exporter, time: float
) -> dict[str, object]:
    """Say what the bundle is and what is not in it; ``assemble`` adds what the tree must be."""
    return {
        "format": FORMAT,
        "taken": datetime.fromtimestamp(time, timezone.utc).isoformat(timespec="milliseconds"),
        "host": next(iter(facts.host_names()), ""),
        "versions": facts.versions(),
        "exporter": str(exporter),
        "missing": {part.name: part.problem for part in parts if part.problem},
        "unreadable": len(tree.missing),
    }


def assemble(
    tree: Tree, parts: list[Part], manifest: dict[str, object], redactor: Redactor | None
) -> list[Entry]:
    """Return all of the bundle; the manifest comes first: a part of it can be told from all."""
    sysfs = [_redacted(entry, redactor) for entry in tree.entries]
    sealed = {**manifest, "redacted": redactor is not None, "tree": Seal(*fingerprint(sysfs))}
    texts = [
        Part(MANIFEST, facts.as_json(sealed)),
        Part("README.txt", _README.encode()),
        *(part for part in parts if not part.problem),
    ]
    if tree.missing:
        lines = "".join(f"{line}\n" for line in tree.missing)
        texts.append(Part("unreadable.txt", os.fsencode(lines)))
    directories = dict.fromkeys(d for text in texts if (d := os.path.dirname(text.name)))
    found = [
        Entry(text.name, "f", text.content if redactor is None else redactor.text(text.content))
        for text in texts
    ]
    return [
        found[0],
        *(Entry(name, "d") for name in (*directories, "sys")),
        *found[1:],
        *(entry._replace(name=f"sys/{entry.name}") for entry in sysfs),
    ]


def _redacted(entry: Entry, redactor: Redactor | None) -> Entry:
    if redactor is None:
        return entry
    content = entry.content
    if entry.kind == "f":
        content = redactor.sysfs(entry.name.rpartition("/")[2], content)
    elif entry.kind == "l":
        content = redactor.place(content)
    return Entry(os.fsdecode(redactor.place(os.fsencode(entry.name))), entry.kind, content)


def _read(name: str, read: Callable[[], bytes]) -> Part:
    try:
        return Part(name, read())
    except OSError as error:
        return Part(name, b"", f"{error.filename or name}: {error.strerror or error}")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_MEMORY_BYTES)
