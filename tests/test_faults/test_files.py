"""Every file of a node, with every error that a read or an open can end in."""

from __future__ import annotations

import errno
import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.fixtures.node_files import FaultyReader, NodeFiles
from tests.fixtures.serving import Served

if TYPE_CHECKING:
    from pathlib import Path

#: One for each way in which errors are told apart.
KINDS = (errno.EIO, errno.ENODEV, errno.ENOENT)

#: Series whose labels hold what was read: without it, they are others.
DESCRIBING = ("nvmeof_path_info{", "nvmeof_subsystem_info{", "nvmeof_host_info{")


#: The kernel's word for a device that went away: then there is a path less.
GONE = {errno.ENODEV, errno.ENOENT, errno.ENXIO, errno.ESTALE, errno.EBADF}
COUNTING = ("nvmeof_namespace_paths{", "nvmeof_subsystem_distinct{")


class Healthy(NamedTuple):
    """A node that answers: its tree, what is told of it, and the files that are read for it."""

    sysfs: str
    truth: dict[str, float]
    files: list[str]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    node = NodeFiles.load("four-gateways", tmp_path_factory.mktemp("node") / "sys")
    served = Served(node.sysfs)
    served.poll(0)
    served.poll(1)
    return Healthy(node.sysfs, _of_the_node(served), sorted(set(served.reader.reads)))


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def _of_the_node(served: Served) -> dict[str, float]:
    return {
        series: value
        for series, value in served.samples().items()
        if not series.startswith("nvmeof_exporter_")
    }


def lies(served: Served, truth: dict[str, float], number: int) -> dict[str, float]:
    """Return the series that say something else than the truth."""
    spared = DESCRIBING + COUNTING if number in GONE else DESCRIBING
    return {
        series: value
        for series, value in _of_the_node(served).items()
        if value != truth.get(series) and not series.startswith(spared)
    }


def _answer_with(reader: FaultyReader, how: str, file: str, number: int) -> None:
    (reader.answers if how == "read" else reader.fails_to_open)[file] = number


def _name(number: int) -> str:
    return errno.errorcode[number]


@pytest.mark.parametrize(
    ("how", "number"), [*(("read", number) for number in KINDS), ("open", errno.EIO)]
)
def test_a_file_that_fails_later_on_costs_its_value_and_no_truth(
    healthy: Healthy, how: str, number: int
) -> None:
    # The other controllers have the same files.
    for file in healthy.files:
        if re.search("/nvme[234]/", file):
            continue
        served = Served(healthy.sysfs, FaultyReader())
        served.poll(0)
        _answer_with(served.reader, how, file, number)
        served.poll(1)
        assert lies(served, healthy.truth, number) == {}, file
        served.reader.answers.clear()
        served.reader.fails_to_open.clear()
        served.source.rescan()
        served.source.refresh_settings()
        served.poll(1)
        assert _of_the_node(served).keys() >= healthy.truth.keys(), file
        served.source.close()


@pytest.mark.parametrize("number", sorted(errno.errorcode), ids=_name)
def test_with_every_file_failing_nothing_is_told_but_what_was_known(
    healthy: Healthy, number: int
) -> None:
    served = Served(healthy.sysfs, FaultyReader())
    served.poll(0)
    for file in healthy.files:
        _answer_with(served.reader, "read", file, number)
        _answer_with(served.reader, "open", file, number)
    served.poll(1)
    assert lies(served, healthy.truth, number) == {}
    served.source.close()


def test_a_node_that_never_answers_is_told_as_one_of_which_nothing_is_known(
    healthy: Healthy,
) -> None:
    served = Served(healthy.sysfs, FaultyReader(dict.fromkeys(healthy.files, errno.EIO)))
    served.poll(0)
    served.poll(1)
    assert served.reader.errors > 0
    alarming = [
        series
        for series, value in served.samples().items()
        if value and series.startswith(("nvmeof_subsystem_redundancy", "nvmeof_failovers_total"))
    ]
    assert alarming == []


def _blind(served: Served) -> bool:
    return served.source.blind


class Unlistable(FaultyReader):
    """Cannot list some directories."""

    def __init__(self) -> None:
        super().__init__()
        self.barred: dict[str, int] = {}

    def names(self, directory: str) -> list[str]:
        for end, number in self.barred.items():
            if directory.endswith(end):
                self.unlisted(directory, OSError(number, "cannot be listed"))
                return []
        return super().names(directory)


@pytest.mark.parametrize(
    "directory", ["class/nvme-subsystem", "class/nvme", "nvme-subsys3", "nvme1"]
)
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE], ids=_name)
def test_a_directory_that_cannot_be_listed_loses_no_path(
    healthy: Healthy, directory: str, number: int
) -> None:
    reader = Unlistable()
    served = Served(healthy.sysfs, reader)
    served.poll(0)
    assert not _blind(served)
    reader.barred[directory] = number
    served.poll(1)
    assert _blind(served)
    assert _of_the_node(served) == healthy.truth
    reader.barred.clear()
    served.poll(1)
    assert not _blind(served)
    assert _of_the_node(served) == healthy.truth


def test_a_tree_that_is_gone_or_empty_takes_no_path_along(node: NodeFiles, tmp_path: Path) -> None:
    served = Served(node.sysfs)
    served.poll(0)
    node.root.rename(tmp_path / "elsewhere")
    served.poll(1)
    assert _blind(served)
    assert served.samples()['nvmeof_subsystem_paths{nqn="nqn.2026-01.org.example:gateways"}'] == 4
    node.root.mkdir()
    served.poll(2)
    assert _blind(served)
    node.root.rmdir()
    (tmp_path / "elsewhere").rename(node.root)
    served.poll(3)
    assert not _blind(served)


def test_a_driver_that_is_unloaded_is_no_failure(node: NodeFiles) -> None:
    served = Served(node.sysfs)
    served.poll(0)
    for name in ("nvme", "nvme-subsystem"):
        shutil.rmtree(node.root / "class" / name)
    served.poll(1)
    assert not _blind(served)
