from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.running import eventually, run_to_the_end, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.thorough

NQN = "nqn.2026-01.org.example:gateways"
PATH = "tcp:10.0.210.201:4420"
MISSING = f'nvmeof_path_state{{nqn="{NQN}",path="{PATH}",state="missing"}}'
EXPECTED = f'nvmeof_subsystem_paths_expected{{nqn="{NQN}"}}'
FAST_RESCAN = "--poll.rescan-interval=100ms"


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    return NodeFiles.load("four-gateways", tmp_path / "sys")


def flags(node: NodeFiles, state: Path) -> tuple[str, ...]:
    return (f"--path.sysfs={node.sysfs}", f"--path.state={state}", FAST_RESCAN)


def test_a_path_that_is_gone_is_missing_after_a_restart(node: NodeFiles, tmp_path: Path) -> None:
    with running(*flags(node, tmp_path / "state")) as exporter:
        eventually((tmp_path / "state/paths.json").exists, "written")
        assert exporter.stop() == 0
    node.apply("remove nvme1")
    with running(*flags(node, tmp_path / "state")) as exporter:
        found = exporter.samples()
        assert (found[MISSING], found[EXPECTED]) == (1, 4)


def test_what_was_seen_for_a_moment_only_is_remembered_all_the_same(
    node: NodeFiles, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    slow = (*flags(node, state)[:2], "--poll.rescan-interval=60s")
    with running(*slow) as exporter:
        assert exporter.stop() == 0
    assert PATH.split(":")[1] in (state / "paths.json").read_text()


def test_a_forgotten_path_is_missing_no_more_while_running(node: NodeFiles, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running(*flags(node, state)) as exporter:
        eventually((state / "paths.json").exists, "written")
        node.apply("remove nvme1")
        exporter.await_sample(MISSING, 1)
        forgotten = run_to_the_end("forget", NQN, PATH, f"--path.state={state}")
        assert forgotten.returncode == 0
        assert forgotten.stdout == (
            f"forgot {PATH} of {NQN}\na running exporter follows within a few seconds\n"
        )
        eventually(lambda: MISSING not in exporter.samples(), "forgotten")
        assert exporter.samples()[EXPECTED] == 3
        assert exporter.stop() == 0
    assert PATH.split(":")[1] not in (state / "paths.json").read_text()


@pytest.mark.parametrize("damage", ["removed", "broken"])
def test_a_memory_lost_from_disk_is_written_again_and_nothing_forgotten(
    node: NodeFiles, tmp_path: Path, damage: str
) -> None:
    file = tmp_path / "state/paths.json"
    with running(*flags(node, tmp_path / "state")) as exporter:
        eventually(file.exists, "written")
        assert exporter.samples()['nvmeof_exporter_collector_success{collector="memory"}'] == 1
        node.apply("remove nvme1")
        exporter.await_sample(MISSING, 1)
        if damage == "removed":
            file.unlink()
        else:
            file.write_text("{")
        eventually(lambda: file.exists() and '"10.0.210.201"' in file.read_text(), "again")
        assert exporter.samples()[MISSING] == 1


def test_a_state_directory_that_cannot_be_used_is_one_error_and_no_more(
    node: NodeFiles, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file, no directory\n")
    with running(*flags(node, tmp_path / "state")) as exporter:
        exporter.await_line("not written")
        exporter.await_sample('nvmeof_exporter_collector_success{collector="memory"}', 0)
        node.apply("remove nvme1")
        exporter.await_sample(MISSING, 1)
        assert exporter.status("/-/healthy") == 200
        assert exporter.stop() == 0
        assert len([line for line in exporter.lines if "level=error" in line]) == 1


def test_a_captured_tree_leaves_nothing_in_this_nodes_memory(
    node: NodeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    monkeypatch.setenv("STATE_DIRECTORY", str(own))
    with running(f"--path.sysfs={node.sysfs}", FAST_RESCAN) as exporter:
        node.apply("remove nvme1")
        exporter.await_sample(MISSING, 1)
        assert exporter.stop() == 0
    assert not own.exists()
