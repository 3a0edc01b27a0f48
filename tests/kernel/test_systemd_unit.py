"""The Debian package under systemd as the first process: confined, supervised, removable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.kernel.lab.boots import Boot

GROUP = "systemd"
KERNELS = ("trixie-backports",)

_MOST_EXPOSED = 1.5

#: A capability as /proc/PID/status has it: CAP_SYSLOG is number 34 (linux/capability.h).
_NONE, _SYSLOG = f"{0:016x}", f"{1 << 34:016x}"

_WATCHDOG_SECONDS = 30.0


def test_the_unit_as_shipped_runs_and_sees_real_paths(boot: Boot) -> None:
    found = boot.result("installed_it_sees_real_paths_as_nobody_in_particular").found
    shown = found["properties"]
    assert (shown["ActiveState"], shown["SubState"]) == ("active", "running")
    assert (shown["NRestarts"], shown["StatusText"]) == ("0", "2 of 2 paths live in 1 subsystem")
    assert found["live"] == found["paths"]
    assert found["interfaces"] == ["h1", "h2"]
    assert found["links_up"] == [1, 1]
    assert found["state"] == ["paths.json", "paths.lock"]
    # What systemd takes away must not make a value wrong: /proc/stat tells when it started.
    assert 0 < found["now"] - found["start_time"] < 3600


def test_it_is_an_account_without_any_privilege(boot: Boot) -> None:
    result = boot.result("installed_it_sees_real_paths_as_nobody_in_particular")
    process = result.found["process"]
    assert {int(number) for number in process["Uid"].split()}.isdisjoint({0})
    assert {process[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {_NONE}
    assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2")
    assert result.found["exposure"] <= _MOST_EXPOSED


def test_every_source_but_the_restricted_log_works_in_the_sandbox(boot: Boot) -> None:
    found = boot.result("installed_it_sees_real_paths_as_nobody_in_particular").found
    assert {"nvme", "udev", "netlink", "ports", "rdma", "links"} <= found["collectors"].keys()
    assert {name for name, works in found["collectors"].items() if not works} == {"kmsg"}
    (line,) = (line for line in found["journal"] if "collector=kmsg" in line)
    assert "Operation not permitted" in line


def test_a_reload_is_taken_over_by_the_same_process(boot: Boot) -> None:
    found = boot.result("a_reload_keeps_the_process_and_a_mistake_the_settings").found
    assert found["reloaded"] == [0, ""]
    assert len(set(found["pids"])) == 1
    assert found["states"] == ["active", "active"]


def test_a_reload_of_a_mistake_fails_and_changes_nothing(boot: Boot) -> None:
    found = boot.result("a_reload_keeps_the_process_and_a_mistake_the_settings").found
    status, _ = found["refused"]
    assert status == 1
    assert found["kept"] == 7
    assert [line for line in found["journal"] if "config.yaml:1" in line and "expect" in line]


def test_a_poller_that_hangs_is_replaced(boot: Boot) -> None:
    found = boot.result("a_poller_that_hangs_is_restarted_by_the_watchdog").found
    # The last sign of life may be half a turn old, and SIGABRT finds nobody to take it at once.
    assert _WATCHDOG_SECONDS / 2 <= found["seconds"] <= _WATCHDOG_SECONDS + 15
    assert found["restarts"] == 1
    assert found["answers"]
    # Where it hung is in the journal: the stack of every thread.
    assert [line for line in found["journal"] if "Fatal Python error: Aborted" in line]
    assert [line for line in found["journal"] if "nvmeof_exporter/poller.py" in line]


def test_a_killed_exporter_comes_back_and_knows_what_is_missing(boot: Boot) -> None:
    found = boot.result("a_killed_exporter_comes_back_with_its_memory").found
    assert (found["restarts"], found["missing"], found["live"]) == (1, 1, 1)


def test_root_may_change_the_memory_of_the_service(boot: Boot) -> None:
    found = boot.result("a_killed_exporter_comes_back_with_its_memory").found
    assert found["forgotten"] == 1
    assert found["warnings"] == []


def test_the_kernel_log_needs_the_drop_in_only_where_it_is_restricted(boot: Boot) -> None:
    found = boot.result("the_kernel_log_takes_a_drop_in_where_it_is_restricted").found
    assert {name: each["kmsg"] for name, each in found.items()} == {
        "open": 1,
        "restricted": 0,
        "drop-in": 1,
    }
    effective = {name: each["process"]["CapEff"] for name, each in found.items()}
    assert effective == {"open": _NONE, "restricted": _NONE, "drop-in": _SYSLOG}


def test_with_the_socket_no_scrape_is_refused(boot: Boot) -> None:
    found = boot.result("with_its_socket_a_restart_refuses_no_scrape").found
    assert [status for status, _ in found["started"]] == [0, 0]
    assert found["answers"] == ["answered"]


def test_removed_and_purged_it_leaves_what_it_should(boot: Boot) -> None:
    found = boot.result("removed_it_is_gone_and_purged_it_has_never_been").found
    assert found == {
        "remove": {"active": "inactive", "memory": True, "settings": True, "program": False},
        "purge": {"active": "inactive", "memory": False, "settings": False, "program": False},
    }
