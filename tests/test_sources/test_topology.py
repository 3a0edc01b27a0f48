from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.sources.topology import Layout, scan
from tests.fixtures.node_files import NodeFiles

if TYPE_CHECKING:
    from pathlib import Path


def outline(layout: Layout) -> dict[str, tuple[dict[str, list[str]], list[str]]]:
    """By subsystem: the disks of each controller, and the heads."""
    return {
        subsystem.name: (
            {c.name: [disk.name for disk in c.disks] for c in subsystem.controllers},
            [head.name for head in subsystem.heads],
        )
        for subsystem in layout.subsystems
    }


def test_disks_belong_to_what_they_are_below_whatever_their_names_say(tmp_path: Path) -> None:
    node = NodeFiles.load("names-lie", tmp_path / "sys")
    assert outline(scan(Reader(), node.sysfs)) == {
        "nvme-subsys0": ({"nvme1": ["nvme0n1"]}, []),
        "nvme-subsys1": ({"nvme0": ["nvme1c0n1"]}, ["nvme1n1"]),
    }


def test_every_odd_shape_is_listed_once(tmp_path: Path) -> None:
    node = NodeFiles.load("odd-shapes", tmp_path / "sys")
    assert outline(scan(Reader(), node.sysfs)) == {
        "nvme-subsys0": ({"nvme0": ["nvme0c0n1"], "nvme1": ["nvme0c1n1"]}, []),
        "nvme-subsys4": ({"nvme4": ["nvme4n1"], "nvme5": ["nvme4n2"]}, []),
        "": ({"nvme2": [], "nvme3": []}, []),
    }


def test_a_subsystem_without_controllers_stays(tmp_path: Path) -> None:
    node = NodeFiles.load("subsystem-without-controllers", tmp_path / "sys")
    assert outline(scan(Reader(), node.sysfs))["nvme-subsys0"] == ({}, [])


def test_only_path_disks_are_hidden(tmp_path: Path) -> None:
    node = NodeFiles.load("names-lie", tmp_path / "sys")
    layout = scan(Reader(), node.sysfs)
    hidden = {d.name: d.hidden for s in layout.subsystems for c in s.controllers for d in c.disks}
    assert hidden == {"nvme0n1": False, "nvme1c0n1": True}


def test_devices_are_ordered_by_number(tmp_path: Path) -> None:
    lines = ["subsystem nvme-subsys0"]
    lines += [f"controller nvme{n} in nvme-subsys0 state=live" for n in (10, 9, 100, 1)]
    node = NodeFiles("\n".join(lines), tmp_path / "sys")
    (controllers, _) = outline(scan(Reader(), node.sysfs))["nvme-subsys0"]
    assert list(controllers) == ["nvme1", "nvme9", "nvme10", "nvme100"]


def test_a_copy_whose_links_became_directories_shows_the_same(tmp_path: Path) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    copied = tmp_path / "copy"
    for place in ("class", "module"):
        shutil.copytree(node.root / place, copied / place, symlinks=False)
    assert outline(scan(Reader(), str(copied))) == outline(scan(Reader(), node.sysfs))


def test_dangling_links_loops_and_strange_names_are_passed_over(tmp_path: Path) -> None:
    node = NodeFiles.load("only-path-lost", tmp_path / "sys")
    before = outline(scan(Reader(), node.sysfs))
    for place in ("class/nvme", "class/nvme-subsystem", "class/nvme-subsystem/nvme-subsys0"):
        for name in ("nvme7", "nvme-subsys7", "nvme7n1"):
            os.symlink("nowhere", f"{node.sysfs}/{place}/{name}")
        for name in ("nvme8", "nvme-subsys8", "nvme8n1"):
            os.symlink(name, f"{node.sysfs}/{place}/{name}")
        for name in ("nvme-subsys", "nvme²", "nvme٣", "hwmon1", "nvme1x", "²"):
            os.mkdir(f"{node.sysfs}/{place}/{name}")
        for name in ("nvme9", "nvme-subsys9", "nvme9n1"):
            with open(f"{node.sysfs}/{place}/{name}", "w", encoding="ascii"):
                pass
    reader = Reader()
    assert outline(scan(reader, node.sysfs)) == before
    assert reader.errors == 0


def test_nothing_there_is_nothing_found(tmp_path: Path) -> None:
    reader = Reader()
    assert scan(reader, str(tmp_path)) == Layout()
    assert scan(reader, str(tmp_path / "absent")) == Layout()
    assert reader.errors == 0


def test_a_device_made_anew_in_the_same_place_is_another(tmp_path: Path) -> None:
    node = NodeFiles.load("only-path-lost", tmp_path / "sys")
    before = scan(Reader(), node.sysfs)
    assert scan(Reader(), node.sysfs) == before
    place = node.place("nvme0")
    place.rename(tmp_path / "gone")
    shutil.copytree(tmp_path / "gone", place, symlinks=True)
    after = scan(Reader(), node.sysfs)
    assert outline(after) == outline(before)
    assert after != before


def test_the_directories_of_a_layout_are_those_of_its_devices(tmp_path: Path) -> None:
    node = NodeFiles.load("only-path-lost", tmp_path / "sys")
    devices = ("nvme-subsys0", "nvme0", "nvme0c0n1", "nvme0n1")
    assert scan(Reader(), node.sysfs).directories() == {str(node.place(d)) for d in devices}
