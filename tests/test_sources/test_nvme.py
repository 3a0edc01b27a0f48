from __future__ import annotations

import errno
import math
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.model import HostIdentity, Namespace, PathSettings, Snapshot, Subsystem
from nvmeof_exporter.sources.nvme import NvmeSource
from tests.fixtures.node_files import FaultyReader, NodeFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Polls within which every setting is read again.
ROUND = 50


class Watched:
    """A node and a source that looks at it."""

    def __init__(self, node: NodeFiles, *, pcie: bool = False) -> None:
        self.node = node
        self.reader = FaultyReader(node.errors)
        self.source = NvmeSource(self.reader, node.sysfs, pcie=pcie)
        self._now = 0.0

    def poll(self) -> Snapshot:
        self._now += 0.1
        return self.source.poll(self._now, self._now)

    def look(self) -> Snapshot:
        self.source.rescan()
        return self.poll()

    def file(self, device: str, name: str) -> str:
        return str(self.node.place(device) / name)


def watch(name: str, tmp_path: Path, *, pcie: bool = False) -> Watched:
    return Watched(NodeFiles.load(name, tmp_path / "sys"), pcie=pcie)


def only(snapshot: Snapshot) -> Subsystem:
    (subsystem,) = snapshot.subsystems
    return subsystem


def labels(snapshot: Snapshot) -> dict[str, str]:
    """Path labels by controller."""
    return {c.name: str(c.path) for s in snapshot.subsystems for c in s.controllers}


def namespaces(snapshot: Snapshot) -> dict[str, Namespace]:
    return {n.nsid: n for s in snapshot.subsystems for n in s.namespaces}


class TestWhatIsShown:
    def test_a_subsystem_with_its_controllers_namespaces_and_paths(self, tmp_path: Path) -> None:
        subsystem = only(watch("scoped-ipv6", tmp_path).poll())
        assert (subsystem.name, subsystem.iopolicy) == ("nvme-subsys8", "queue-depth")
        assert [c.name for c in subsystem.controllers] == ["nvme8", "nvme9"]
        (namespace,) = subsystem.namespaces
        assert (namespace.nsid, namespace.device) == ("1", "nvme8n1")
        assert [p.disk for p in namespace.paths] == ["nvme8c8n1", "nvme8c9n1"]
        assert [p.controller.name for p in namespace.paths] == ["nvme8", "nvme9"]

    def test_settings_in_seconds(self, tmp_path: Path) -> None:
        controller = only(watch("scoped-ipv6", tmp_path).poll()).controllers[0]
        assert controller.settings == PathSettings(
            keep_alive_timeout=5,
            ctrl_loss_timeout=600,
            reconnect_delay=10,
            fast_io_fail_timeout=math.inf,
            io_timeout=30,
            queues=5,
        )

    def test_a_controllers_own_io_timeout_is_in_milliseconds_and_wins(self, tmp_path: Path) -> None:
        watched = watch("scoped-ipv6", tmp_path)
        watched.node.apply("set nvme8 io_timeout=45000")
        watched.source.refresh_settings()
        watched.look()
        watched.source.refresh_settings()
        times = [c.settings.io_timeout for c in only(watched.poll()).controllers]
        assert times == [45, 30]

    def test_an_old_kernel_leaves_settings_out(self, tmp_path: Path) -> None:
        controller = only(watch("old-kernel", tmp_path).poll()).controllers[0]
        assert controller.settings == PathSettings(io_timeout=30, queues=9)
        assert controller.resets is None
        assert controller.reconnects is None

    def test_discovery_controllers_are_counted_and_no_paths(self, tmp_path: Path) -> None:
        snapshot = watch("fibre-channel", tmp_path).poll()
        assert snapshot.discovery_controllers == 1
        assert set(labels(snapshot)) == {"nvme1", "nvme2", "nvme3"}

    def test_a_discovery_subsystem_alone_tells_on_its_nqn_where_there_is_no_type(
        self, tmp_path: Path
    ) -> None:
        watched = watch("discovery-that-comes-and-goes", tmp_path)
        counts = [watched.look().discovery_controllers]
        while watched.node.advance():
            snapshot = watched.look()
            counts.append(snapshot.discovery_controllers)
            assert set(labels(snapshot)) == {"nvme0"}
        assert counts == [0, 1, 0]
        assert watched.reader.errors == 0

    def test_local_drives_are_left_out_unless_asked_for(self, tmp_path: Path) -> None:
        node = NodeFiles.load("names-lie", tmp_path / "sys")
        assert Watched(node).poll().subsystems == ()
        assert labels(Watched(node, pcie=True).poll()) == {
            "nvme0": "pcie:0000:86:00.0",
            "nvme1": "pcie:0000:af:00.0",
        }

    def test_a_local_drive_that_was_pulled_is_still_none_of_the_fabric(
        self, tmp_path: Path
    ) -> None:
        watched = watch("leaked-in-flight", tmp_path)
        assert watched.look().subsystems == ()
        watched.node.apply("remove nvme0")
        assert watched.look().subsystems == ()

    def test_a_transport_of_the_future_is_a_fabric(self, tmp_path: Path) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.node.apply("set nvme0 transport=quic")
        again = Watched(watched.node)
        assert labels(again.poll()) == {"nvme0": "quic:10.0.0.2:4420"}

    def test_hosts_are_those_that_controllers_present(self, tmp_path: Path) -> None:
        snapshot = watch("one-nqn-twice", tmp_path).poll()
        assert snapshot.hosts == (
            HostIdentity("nqn.2026-01.org.example:host-0", "0"),
            HostIdentity("nqn.2026-01.org.example:host-1", "1"),
        )

    def test_without_the_driver_nothing_is_said_of_multipath(self, tmp_path: Path) -> None:
        node = NodeFiles("", tmp_path / "sys")
        snapshot = Watched(node).poll()
        assert (snapshot.subsystems, snapshot.multipath_enabled) == ((), None)

    @pytest.mark.parametrize(("parameter", "multipath"), [("Y", True), ("N", False)])
    def test_a_subsystem_without_namespaces_goes_by_the_parameter(
        self, tmp_path: Path, parameter: str, multipath: bool
    ) -> None:
        watched = watch("multipath-off", tmp_path)
        for line in (f"parameter multipath={parameter}", "remove nvme0n1", "remove nvme1n1"):
            watched.node.apply(line)
        assert only(watched.look()).multipath is multipath

    def test_hostile_texts_become_texts(self, tmp_path: Path) -> None:
        subsystem = only(watch("odd-texts", tmp_path).poll())
        assert subsystem.nqn == 'nqn.2026-01.org.example:odd"\nline\\'
        assert subsystem.model == 'Caf\ufffd "X"'
        assert (subsystem.serial, subsystem.firmware) == ("", "")


class TestLabels:
    def test_paths_with_equal_addresses_are_numbered_in_order_of_cntlid(
        self, tmp_path: Path
    ) -> None:
        found = labels(watch("odd-shapes", tmp_path).poll())
        assert (found["nvme1"], found["nvme0"]) == ("loop:", "loop:#2")

    def test_the_same_across_two_directories_of_one_nqn(self, tmp_path: Path) -> None:
        snapshot = watch("one-nqn-twice", tmp_path).poll()
        assert labels(snapshot) == {"nvme1": "tcp:10.0.0.2:4420", "nvme0": "tcp:10.0.0.2:4420#2"}
        assert {n: ns.device for n, ns in namespaces(snapshot).items()} == {
            "1": "nvme0n1",
            "1#2": "nvme1n1",
        }

    def test_a_label_stays_when_its_twin_goes(self, tmp_path: Path) -> None:
        watched = watch("one-nqn-twice", tmp_path)
        watched.poll()
        watched.node.apply("remove nvme1")
        assert labels(watched.look()) == {"nvme0": "tcp:10.0.0.2:4420#2"}

    def test_a_namespace_label_stays_when_its_twin_goes(self, tmp_path: Path) -> None:
        watched = watch("one-nqn-twice", tmp_path)
        watched.poll()
        watched.node.advance()
        assert {n: ns.device for n, ns in namespaces(watched.look()).items()} == {"1#2": "nvme1n1"}

    def test_a_label_stays_when_a_reconnect_brings_a_lower_cntlid(self, tmp_path: Path) -> None:
        watched = watch("one-nqn-twice", tmp_path)
        before = labels(watched.poll())
        watched.node.apply("set nvme0 cntlid=0")
        watched.source.refresh_settings()
        assert labels(watched.look()) == before

    def test_a_new_twin_takes_the_label_that_is_free(self, tmp_path: Path) -> None:
        watched = watch("one-nqn-twice", tmp_path)
        watched.poll()
        watched.node.apply("remove nvme1")
        watched.look()
        watched.node.apply(
            "controller nvme7 in nvme-subsys1 transport=tcp state=live cntlid=9"
            " address=traddr=10.0.0.2,trsvcid=4420"
        )
        assert labels(watched.look()) == {
            "nvme0": "tcp:10.0.0.2:4420#2",
            "nvme7": "tcp:10.0.0.2:4420",
        }

    def test_an_address_that_could_not_be_read_at_first_leaves_no_trace(
        self, tmp_path: Path
    ) -> None:
        node = NodeFiles.load("four-gateways", tmp_path / "sys")
        want = labels(Watched(node).poll())
        node.errors.update(
            {str(node.place(f"nvme{n}") / "address"): errno.EAGAIN for n in range(1, 5)}
        )
        watched = Watched(node)
        unread = labels(watched.poll())
        assert set(unread.values()).isdisjoint(want.values())
        assert len(set(unread.values())) == 4
        node.errors.clear()
        watched.source.refresh_settings()
        assert labels(watched.poll()) == want

    def test_an_address_that_cannot_be_read_later_changes_nothing(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        before = labels(watched.poll())
        watched.reader.answers[watched.file("nvme2", "address")] = errno.EAGAIN
        watched.source.refresh_settings()
        assert labels(watched.poll()) == before

    def test_the_source_address_is_no_part_of_a_label(self, tmp_path: Path) -> None:
        watched = watch("scoped-ipv6", tmp_path)
        before = labels(watched.look())
        sources = [only(watched.poll()).controllers[1].src_addr]
        while watched.node.advance():
            snapshot = watched.poll()
            assert labels(snapshot) == before
            sources.append(only(snapshot).controllers[1].src_addr)
        assert sources == ["fe80::2", "", "fe80::9"]

    def test_private_namespaces_of_one_nsid_are_two(self, tmp_path: Path) -> None:
        snapshot = watch("odd-shapes", tmp_path).poll()
        private = next(s for s in snapshot.subsystems if s.nqn.endswith(":private"))
        assert [(n.nsid, n.wwid, len(n.paths)) for n in private.namespaces] == [
            ("1", "uuid.4", 1),
            ("1#2", "uuid.5", 1),
        ]

    def test_paths_without_a_head_are_one_namespace(self, tmp_path: Path) -> None:
        snapshot = watch("odd-shapes", tmp_path).poll()
        twins = next(s for s in snapshot.subsystems if s.nqn.endswith(":twins"))
        (namespace,) = twins.namespaces
        assert (namespace.device, len(namespace.paths)) == ("", 2)
        assert twins.multipath


class TestWhatCannotBeRead:
    def test_a_state_that_cannot_be_read_is_none_and_the_last_one_is_kept(
        self, tmp_path: Path
    ) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.poll()
        watched.reader.answers[watched.file("nvme0", "state")] = errno.EAGAIN
        controller = only(watched.poll()).controllers[0]
        assert (controller.state, controller.raw_state) == (None, "live")
        watched.reader.answers.clear()
        assert only(watched.poll()).controllers[0].state == "live"

    def test_of_a_controller_that_is_gone_nothing_is_known(self, tmp_path: Path) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.poll()
        watched.reader.answers[watched.file("nvme0", "state")] = errno.ENODEV
        subsystem = only(watched.poll())
        assert not subsystem.controllers[0].usable
        assert not subsystem.namespaces[0].paths[0].known
        assert watched.source.stale

    @pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.EIO])
    def test_an_ana_state_that_cannot_be_opened_is_not_the_absence_of_ana(
        self, tmp_path: Path, number: int
    ) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.reader.fails_to_open[watched.file("nvme3c2n1", "ana_state")] = number
        path = namespaces(watched.poll())["1"].paths[1]
        assert (path.ana_state, path.known, path.usable) == (None, False, False)

    def test_an_absent_ana_state_is_the_absence_of_ana(self, tmp_path: Path) -> None:
        path = namespaces(watch("only-path-lost", tmp_path).poll())["1"].paths[0]
        assert (path.ana_state, path.usable) == ("", True)

    def test_a_path_disk_that_is_gone_is_not_usable_and_asks_for_a_rescan(
        self, tmp_path: Path
    ) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        for name in ("stat", "ana_state"):
            watched.reader.answers[watched.file("nvme3c1n1", name)] = errno.ENODEV
        path = namespaces(watched.poll())["1"].paths[0]
        assert (path.known, path.usable, path.io) == (False, False, None)
        assert watched.source.stale

    def test_a_device_that_answers_enodev_for_a_while_comes_back(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        for name in ("state", "address", "subsysnqn"):
            watched.reader.answers[watched.file("nvme1", name)] = errno.ENODEV
        watched.source.refresh_settings()
        watched.poll()
        watched.reader.answers.clear()
        controller = only(watched.look()).controllers[0]
        assert (controller.state, str(controller.path)) == ("live", "tcp:10.0.210.201:4420")
        assert not watched.source.stale

    def test_a_subsystem_keeps_its_name_when_it_cannot_be_read(self, tmp_path: Path) -> None:
        watched = watch("names-lie", tmp_path, pcie=True)
        before = [(s.nqn, s.model, s.serial) for s in watched.look().subsystems]
        for device in ("nvme-subsys0", "nvme-subsys1"):
            for name in ("subsysnqn", "model", "serial"):
                watched.reader.answers[watched.file(device, name)] = errno.EIO
        assert [(s.nqn, s.model, s.serial) for s in watched.look().subsystems] == before

    def test_a_discovery_controller_stays_one_when_its_type_cannot_be_read(
        self, tmp_path: Path
    ) -> None:
        watched = watch("fibre-channel", tmp_path)
        watched.poll()
        for device, name in (("nvme0", "cntrltype"), ("nvme-subsys0", "subsystype")):
            watched.reader.answers[watched.file(device, name)] = errno.EAGAIN
        watched.source.refresh_settings()
        assert "nvme0" not in labels(watched.look())

    def test_a_state_that_never_answers_is_told_once_over_many_rescans(
        self, tmp_path: Path
    ) -> None:
        watched = watch("four-gateways", tmp_path)
        file = watched.file("nvme1", "state")
        watched.reader.answers[file] = errno.EIO
        for _ in range(20):
            watched.look()
        assert watched.reader.told == [(file, "EIO")]
        assert watched.reader.errors >= 20

    def test_one_bad_file_costs_no_neighbour(self, tmp_path: Path) -> None:
        watched = watch("odd-texts", tmp_path)
        subsystem = only(watched.poll())
        assert [c.state for c in subsystem.controllers] == ["unknown", "unknown", "deleting", None]
        assert subsystem.controllers[0].raw_state == "fencing"
        assert [p.ana_state for p in subsystem.namespaces[0].paths] == [
            "unknown",
            "unknown",
            None,
            "optimized",
        ]
        assert [p.io is None for p in subsystem.namespaces[0].paths] == [False, False, False, True]
        settings = [c.settings for c in subsystem.controllers]
        assert settings[0] == PathSettings(io_timeout=30)
        assert settings[1] == PathSettings(0, math.inf, math.inf, math.inf, 30, None)

    def test_a_namespace_whose_id_could_never_be_read_is_left_out(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        for device in ("nvme3n1", *(f"nvme3c{n}n1" for n in range(1, 5))):
            watched.reader.answers[watched.file(device, "nsid")] = errno.EIO
        assert set(namespaces(watched.look())) == {"1", "2"}  # known from before
        fresh = Watched(watched.node)
        fresh.reader.answers.update(watched.reader.answers)
        fresh.source = NvmeSource(fresh.reader, fresh.node.sysfs)
        assert set(namespaces(fresh.poll())) == {"2"}


class TestDevicesThatComeAndGo:
    def test_a_controller_that_goes_takes_its_paths_along(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        snapshot = watched.poll()
        while watched.node.advance():
            snapshot = watched.look()
        assert set(labels(snapshot)) == {"nvme2", "nvme3", "nvme4"}
        assert [len(n.paths) for n in namespaces(snapshot).values()] == [3, 3]

    def test_neighbours_of_a_device_that_goes_keep_their_descriptors(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        watched.node.apply("remove nvme1")
        watched.reader.fails_to_open[watched.file("nvme2", "state")] = errno.EMFILE
        assert [c.state for c in only(watched.look()).controllers] == ["live"] * 3

    def test_a_device_replaced_under_its_name_is_read_anew(self, tmp_path: Path) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.poll()
        place = watched.node.place("nvme0")
        place.rename(tmp_path / "gone")
        shutil.copytree(tmp_path / "gone", place, symlinks=True)
        (place / "state").write_text("connecting\n")
        (place / "address").write_text("traddr=10.9.9.9,trsvcid=4420\n")
        controller = only(watched.look()).controllers[0]
        assert (controller.state, str(controller.path)) == ("connecting", "tcp:10.9.9.9:4420")

    def test_a_device_replaced_by_one_with_the_same_inode_is_read_anew_when_it_stopped(
        self, tmp_path: Path
    ) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.poll()
        watched.reader.answers[watched.file("nvme0", "state")] = errno.ENODEV
        watched.poll()
        watched.reader.answers.clear()
        watched.node.apply("set nvme0 state=new address=traddr=10.9.9.9,trsvcid=4420")
        assert labels(watched.look()) == {"nvme0": "tcp:10.9.9.9:4420"}

    def test_a_namespace_that_appears_is_found(self, tmp_path: Path) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.poll()
        watched.node.apply("path nvme0c0n2 of nvme0 nsid=2")
        watched.node.apply("head nvme0n2 in nvme-subsys0 nsid=2")
        assert set(namespaces(watched.look())) == {"1", "2"}

    def test_a_device_that_vanishes_between_listing_and_reading_costs_nothing_else(
        self, tmp_path: Path
    ) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        shutil.rmtree(watched.node.place("nvme1"))  # the links still name it
        snapshot = watched.look()
        assert set(labels(snapshot)) == {"nvme2", "nvme3", "nvme4"}

    def test_an_orphan_joins_its_subsystem(self, tmp_path: Path) -> None:
        watched = watch("odd-shapes", tmp_path)
        before = watched.poll()
        assert [s.name for s in before.subsystems if s.nqn.endswith(":orphan")] == [""]
        subsystem = "subsystem nvme-subsys2 subsysnqn=nqn.2026-01.org.example:orphan"
        watched.node.apply(subsystem)
        os.symlink(watched.node.place("nvme2"), watched.node.place("nvme-subsys2") / "nvme2")
        after = watched.look()
        assert [s.name for s in after.subsystems if s.nqn.endswith(":orphan")] == ["nvme-subsys2"]
        assert labels(after)["nvme2"] == labels(before)["nvme2"]

    def test_after_the_last_subsystem_there_is_none(self, tmp_path: Path) -> None:
        watched = watch("multipath-off", tmp_path)
        (subsystem,) = watched.look().subsystems
        for controller in subsystem.controllers:
            watched.node.apply(f"remove {controller.name}")
        watched.node.apply(f"remove {subsystem.name}")
        assert watched.look().subsystems == ()


class TestPolling:
    def test_counters_are_read_before_states(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        watched.reader.reads.clear()
        watched.poll()
        reads = watched.reader.reads
        names = [os.path.basename(path) for path in reads]
        last_stat = max(i for i, name in enumerate(names) if name == "stat")
        first_state = min(i for i, name in enumerate(names) if name in {"state", "ana_state"})
        assert names.count("stat") == 10
        assert names.count("state") == 4
        assert names.count("ana_state") == 8
        assert last_stat < first_state

    def test_unchanged_subsystems_are_the_same_objects(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        before = watched.poll()
        after = watched.poll()
        assert after.subsystems[0] is before.subsystems[0]

    def test_what_is_made_from_what_moved_is_what_a_first_look_makes(self, tmp_path: Path) -> None:
        node = demo_node("7.3")
        tree = Tree(node, tmp_path / "demo")
        source = NvmeSource(FaultyReader(), tree.sysfs)
        array = node.subsystems[0]
        first, second = array.connections
        happenings: dict[int, Callable[[], object]] = {
            5: lambda: node.set_ana(second, 1, "inaccessible"),
            10: lambda: node.port_removed(first),
            30: lambda: node.disable(array.namespaces[1]),
            40: lambda: node.port_restored(first),
            60: lambda: node.disconnect(second),
        }
        for number in range(80):
            happenings.get(number, lambda: None)()
            node.advance(0.1)
            tree.sync()
            if number % 4 == 0:
                source.rescan()
            found = source.poll(float(number), float(number))
            if number % 4 == 0:
                anew = NvmeSource(FaultyReader(), tree.sysfs)
                assert found == anew.poll(float(number), float(number))
                anew.close()

    def test_settings_are_read_again_within_a_round_of_polls(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        for number in range(1, 5):
            watched.node.apply(f"set nvme{number} kato={number}")
        *_, snapshot = [watched.poll() for _ in range(ROUND)]
        times = [c.settings.keep_alive_timeout for c in only(snapshot).controllers]
        assert times == [1, 2, 3, 4]

    def test_a_policy_that_changes_is_seen_at_the_next_rescan(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        watched.node.apply("set nvme-subsys3 iopolicy=round-robin")
        assert only(watched.look()).iopolicy == "round-robin"

    def test_an_attribute_that_appears_is_seen_at_the_next_rescan(self, tmp_path: Path) -> None:
        watched = watch("only-path-lost", tmp_path)
        watched.poll()
        watched.node.apply("set nvme0c0n1 ana_state=inaccessible")
        assert namespaces(watched.poll())["1"].paths[0].ana_state == ""
        assert namespaces(watched.look())["1"].paths[0].ana_state == "inaccessible"

    def test_after_close_no_descriptor_is_kept(self, tmp_path: Path) -> None:
        watched = watch("four-gateways", tmp_path)
        watched.poll()
        assert watched.reader.kept > 0
        watched.source.close()
        assert watched.reader.kept == 0
