from __future__ import annotations

import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.encoder import encode
from nvmeof_exporter.exposition.metrics import METRICS
from nvmeof_exporter.exposition.sheet import Sheet
from tests.fixtures.expectations import EXPECTED, NAMES, serve
from tests.fixtures.node_files import NODES, FaultyReader, NodeFiles
from tests.fixtures.serving import Served, one_valued, samples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prometheus_client.core import Metric as Family

KINDS = {"info": "gauge"}
ARCHIVES = sorted((EXPECTED.parent / "trees").glob("*/*.tar.xz"))
NODE_NAMES = sorted(path.stem for path in NODES.glob("*.node"))


def served(name: str, tmp_path: Path) -> Served:
    """A node after all of its steps, everything included."""
    node = NodeFiles.load(name, tmp_path / "sys")
    found = Served(node.sysfs, FaultyReader(node.errors), pcie=True)
    found.poll()
    while node.advance():
        found.poll(node.time)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_tree_serves_exactly_the_expected_text(tmp_path: Path, name: str) -> None:
    expected = (EXPECTED / f"{name}.prom").read_text(encoding="utf-8")
    assert serve(name, tmp_path).splitlines() == expected.splitlines()


def test_every_expected_text_has_its_tree() -> None:
    assert {path.stem for path in EXPECTED.glob("*.prom")} == set(NAMES)


@pytest.mark.parametrize("name", NODE_NAMES)
def test_the_tables_definitions_are_served(tmp_path: Path, name: str) -> None:
    for family in parse(served(name, tmp_path).text()):
        metric = METRICS.get(family.name) or METRICS[f"{family.name}_total"]
        assert family.type == KINDS.get(metric.kind, metric.kind)
        assert family.documentation == metric.help
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)


def text_of(collector: StateCollector) -> str:
    return b"".join(encode(collector.collect(), openmetrics=False)).decode()


def as_told(families: list[Family]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Values by name and labels; bounds of buckets as numbers, as the formats differ in them."""
    return {
        (
            sample.name,
            tuple(
                sorted(
                    (label, str(float(value)) if label == "le" else value)
                    for label, value in sample.labels.items()
                )
            ),
        ): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("name", NODE_NAMES)
def test_openmetrics_tells_the_same_as_the_classic_format(tmp_path: Path, name: str) -> None:
    found = served(name, tmp_path)
    families = StateCollector(found.published).collect()
    text = b"".join(encode(families, openmetrics=True)).decode()
    assert text.endswith("# EOF\n")
    assert "_created" not in text
    told = as_told(list(parse_openmetrics(text)))  # type: ignore[no-untyped-call]
    assert told == as_told(list(parse(found.text())))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_capture_of_a_kernel_is_served_without_an_error(
    tmp_path: Path, archive: Path
) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    found = Served(str(tmp_path / "sys"), pcie=True)
    found.poll()
    found.poll(1.0)
    assert found.reader.told == []
    controllers = list((tmp_path / "sys/class/nvme").glob("nvme*"))
    told = found.samples()
    paths = [series for series in told if series.startswith("nvmeof_path_info")]
    assert len(paths) + told["nvmeof_discovery_controllers"] == len(controllers)
    for controller in controllers:
        if (controller / "cntrltype").read_text() == "discovery\n":
            continue
        (path,) = [series for series in paths if f'controller="{controller.name}"' in series]
        label = path.partition('path="')[2].partition('"')[0]
        state = (controller / "state").read_text().split(" (")[0].strip()
        assert one_valued(told, "nvmeof_path_state", "state", path=label) == [state]


def test_before_the_first_poll_only_the_exporter_itself_is_told(tmp_path: Path) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    names = {series.partition("{")[0] for series in Served(node.sysfs).samples()}
    assert names
    assert all(name.startswith("nvmeof_exporter_") for name in names)


def test_a_scrape_needs_no_file(tmp_path: Path) -> None:
    found = served("four-gateways", tmp_path)
    before = found.text()
    reads = len(found.reader.reads)
    shutil.rmtree(tmp_path / "sys")
    assert found.text() == before
    assert len(found.reader.reads) == reads


def test_series_go_with_their_subject(tmp_path: Path) -> None:
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    found = Served(node.sysfs)
    found.poll()
    for device in ("nvme3n1", *(f"nvme3c{n}n1" for n in range(1, 5))):
        node.apply(f"remove {device}")
    found.poll(1)
    names = {name for name, metric in METRICS.items() if "nsid" in metric.labels}
    left = [s for s in found.samples() if s.partition("{")[0] in names and 'nsid="1"' in s]
    assert left == []
    assert any('nsid="2"' in series for series in found.samples())


def test_two_scrapes_of_one_state_are_equal_to_the_letter(tmp_path: Path) -> None:
    found = served("four-gateways", tmp_path)
    assert found.text() == found.text()


def test_the_state_is_locked_while_it_is_copied_and_not_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = served("four-gateways", tmp_path)
    locked: list[bool] = []
    plain = Sheet.part

    def part(sheet: Sheet, *args: Any, **kwargs: Any) -> None:
        locked.append(found.published._lock.locked())
        plain(sheet, *args, **kwargs)

    monkeypatch.setattr(Sheet, "part", part)
    found.text()
    assert set(locked) == {False}


@pytest.mark.parametrize("name", NODE_NAMES)
def test_a_later_scrape_tells_what_a_first_one_would(tmp_path: Path, name: str) -> None:
    node = NodeFiles.load(name, tmp_path / "sys")
    found = Served(node.sysfs, FaultyReader(node.errors), pcie=True)
    kept = StateCollector(found.published)
    for _ in range(2):
        found.poll(node.time)
        assert text_of(kept) == found.text()
    while node.advance():
        found.poll(node.time)
        assert text_of(kept) == found.text()


@pytest.mark.parametrize("kernel", ["6.1", "7.3"])
def test_what_did_not_change_is_taken_over_and_what_changed_is_not(
    tmp_path: Path, kernel: str
) -> None:
    node = demo_node(kernel)
    tree = Tree(node, tmp_path / "demo")
    found = Served(tree.sysfs)
    kept = StateCollector(found.published)
    array, scratch = (node.subsystems[index] for index in (0, 1))
    first, second = array.connections
    happenings: dict[int, Callable[[], object]] = {
        10: lambda: node.black_hole(first),
        40: lambda: node.set_ana(second, 1, "inaccessible"),
        60: lambda: node.heal(first),
        70: lambda: node.link_down(scratch.connections[0].netdev),
        100: lambda: node.disable(array.namespaces[1]),
        110: lambda: node.disconnect(second),
        120: lambda: node.link_up(scratch.connections[0].netdev),
        130: lambda: node.connect(second),
    }
    for tenth in range(150):
        if tenth in happenings:
            happenings[tenth]()
        node.advance(0.1)
        tree.sync()
        found.poll(tenth / 10)
        if tenth % 3 == 0:
            assert text_of(kept) == found.text()
    assert found.samples()[f'nvmeof_subsystem_paths{{nqn="{array.nqn}"}}'] == 2


def test_a_number_that_is_off_is_infinite(tmp_path: Path) -> None:
    found = served("four-gateways", tmp_path).samples()
    values = [v for s, v in found.items() if s.startswith("nvmeof_path_fast_io_fail_timeout")]
    assert values == [float("inf")] * 3


def test_bytes_and_seconds_are_told_in_base_units(tmp_path: Path) -> None:
    found = samples(served("subsystem-without-controllers", tmp_path).text())
    label = '{nqn="nqn.2026-01.org.example:volume-2",nsid="1"}'
    assert found[f"nvmeof_namespace_size_bytes{label}"] == 1 << 20
    assert found[f"nvmeof_namespace_read_bytes_total{label}"] == 800 * 512
    assert found[f"nvmeof_namespace_written_bytes_total{label}"] == 1600 * 512
    assert found[f"nvmeof_namespace_read_time_seconds_total{label}"] == pytest.approx(0.05)


@pytest.mark.prometheus
@pytest.mark.parametrize("name", NAMES)
def test_promtool_has_nothing_to_say(tmp_path: Path, name: str) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=serve(name, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
