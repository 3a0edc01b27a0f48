"""Trees in which anything may stand anywhere, and change at any time: fuzzing.

``make soak`` lets it run for longer.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.node_files import NodeFiles
from tests.fixtures.serving import Served
from tests.soak.amount import amount

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.timeout(0), pytest.mark.thorough]

EXAMPLES = amount(10, 5_000)

#: What the kernel says somewhere, and what it might say where it is not expected.
WORDS = [
    b"live\n",
    b"deleting (no IO)\n",
    b"optimized\n",
    b"inaccessible\n",
    b"change\n",
    b"tcp\n",
    b"rdma\n",
    b"off\n",
    b"-1\n",
    b"0\n",
    b"1\n",
    b"18446744073709551615\n",
    b"99999999999999999999999\n",
    b"1e309\n",
    b"nan\n",
    b"traddr=10.0.0.2,trsvcid=4420\n",
    b"traddr=fe80::1%eth0,trsvcid=4420,host_traddr=::,src_addr=\n",
    b"traddr=,trsvcid=,,==\n",
    b"nqn.2014-08.org.nvmexpress.discovery\n",
    b"nqn.2026-01.org.example:gateways \n",
    b'"quoted\\" {label="x"} 1\n',
    b"\x00\x00\x00\n",
    b"\xff\xfe\n",
    b"N/A (no PMA)\n",
    b" ".join([b"7"] * 17) + b"\n",
    b" ".join([b"-7"] * 11) + b"\n",
    b"x" * 5000,
    b"",
]
contents = st.sampled_from(WORDS) | st.binary(max_size=100)
changes = st.tuples(
    st.sampled_from(["write", "remove", "directory", "loop", "dangling", "move"]),
    st.integers(min_value=0),
    contents,
)


def _everything(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if not path.is_symlink())


def _change(root: Path, how: str, number: int, content: bytes) -> None:
    """Do something to one file, link or directory of the tree."""
    places = _everything(root)
    if not places:
        return
    place = places[number % len(places)]
    if how == "write" and place.is_file():
        place.write_bytes(content)
        return
    if how == "move":
        other = places[(number * 7 + 1) % len(places)]
        with contextlib.suppress(OSError):
            place.rename(other.parent / other.name)
        return
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    with contextlib.suppress(OSError):
        if how == "directory":
            place.mkdir()
        elif how == "loop":
            place.symlink_to(place.name)
        elif how == "dangling":
            place.symlink_to("nowhere")


def _counters(found: dict[str, float]) -> Iterator[tuple[str, float]]:
    for series, value in found.items():
        if series.partition("{")[0].endswith(("_total", "_count", "_bucket", "_sum")):
            yield series, value


@pytest.mark.parametrize("name", ["four-gateways", "odd-shapes", "names-lie", "odd-texts"])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(st.lists(changes, max_size=6), min_size=1, max_size=4))
def test_whatever_a_tree_becomes_it_is_told_well_formed_and_nothing_counts_backwards(
    name: str, steps: list[list[tuple[str, int, bytes]]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        node = NodeFiles.load(name, Path(directory) / "sys")
        served = Served(node.sysfs, pcie=True)
        own: dict[str, float] = {}
        for moment, step in enumerate(steps):
            for how, number, content in step:
                _change(node.root, how, number, content)
            served.poll(moment, rescan=moment % 2 == 0)
            served.poll(moment + 0.5)
            text = served.text()
            list(text_string_to_metric_families(text))
            found = served.samples()  # which fails where a series appears twice
            monitored = {
                series: value
                for series, value in _counters(found)
                if series.startswith(("nvmeof_path_", "nvmeof_fail", "nvmeof_subsystem_"))
            }
            backwards = {
                series: (own[series], value)
                for series, value in monitored.items()
                if value < own.get(series, value)
            }
            assert backwards == {}
            own |= monitored
            assert all(value == value for value in found.values())  # noqa: PLR0124 - no NaN
        served.source.close()


@settings(max_examples=EXAMPLES, deadline=None)
@given(steps=st.lists(st.lists(changes, max_size=6), min_size=1, max_size=3))
def test_a_tree_that_is_well_again_is_told_as_if_nothing_had_been(
    steps: list[list[tuple[str, int, bytes]]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        node = NodeFiles.load("four-gateways", Path(directory) / "sys")
        served = Served(node.sysfs)
        served.poll(0)
        healthy = {s: v for s, v in served.samples().items() if s.startswith(STEADY)}
        for moment, step in enumerate(steps, 1):
            for how, number, content in step:
                _change(node.root, how, number, content)
            served.poll(moment)
        shutil.rmtree(node.root)
        NodeFiles.load("four-gateways", node.root)
        served.poll(100)
        served.poll(101)
        now = {s: v for s, v in served.samples().items() if s.startswith(STEADY)}
        assert {s: (v, now.get(s)) for s, v in healthy.items() if now.get(s) != v} == {}
        served.source.close()


#: What says how things are, and not what happened to them.
STEADY = ("nvmeof_path_state{", "nvmeof_namespace_path_ana_state{", "nvmeof_namespace_paths{")
