"""Where settings come from, and which of two wins."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.config import Config, ConfigError, ListenAddress, load, reload
from nvmeof_exporter.config.options import COLLECTORS, OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.config.options import Option


def test_the_defaults_are_the_documented_ones() -> None:
    config = load([], {})
    assert config.web_listen_address == (ListenAddress("", 10067),)
    assert config.web_telemetry_path == "/metrics"
    assert config.web_max_requests == 40
    assert (config.path_sysfs, config.path_procfs) == ("/sys", "/proc")
    assert config.path_kmsg == "/dev/kmsg"
    assert config.path_state == "/var/lib/nvmeof-exporter"
    assert config.poll_interval == 0.1
    assert config.poll_incident_interval == 0.02
    assert config.poll_rescan_interval == 5
    assert (config.poll_slow_interval, config.poll_slow_deadline) == (5, 2)
    assert config.stall_threshold == 0.5
    assert config.superseded_expiry == 900
    assert (config.log_level, config.log_format) == ("info", "logfmt")
    assert (config.web_systemd_socket, config.config_check) == (False, False)
    assert config.collector_links == "paths"
    assert config.collector_rdma_device_include is None
    assert config.collector_rdma_device_exclude is None
    assert config.expected == ()


def test_every_option_of_the_table_has_its_field_and_every_field_its_option() -> None:
    fields = {field.name for field in dataclasses.fields(Config)} - {"expected", "policy", "origin"}
    assert {option.field for option in OPTIONS} == fields


def test_every_option_of_the_table_says_what_it_does_in_a_sentence() -> None:
    assert [option.name for option in OPTIONS if not option.help.endswith(".")] == []


#: For every option three different values as texts; which origin gives which is shuffled below.
_THREE_VALUES = {
    "web.listen-address": (":1", "127.0.0.1:2", "[::1]:3"),
    "web.telemetry-path": ("/a", "/b", "/c"),
    "web.config.file": ("/a.yaml", "/b.yaml", ""),
    "web.max-requests": ("1", "2", "3"),
    "path.sysfs": ("/a", "/b", "/c"),
    "path.procfs": ("/a", "/b", "/c"),
    "path.kmsg": ("/a", "", "/c"),
    "path.state": ("/a", "/b", ""),
    "poll.interval": ("21ms", "22ms", "23ms"),
    "poll.incident-interval": ("11ms", "12ms", "13ms"),
    "poll.rescan-interval": ("1s", "2s", "3s"),
    "poll.slow-interval": ("1s", "2s", "3s"),
    "poll.slow-deadline": ("1s", "3s", "4s"),
    "collector.rdma.device-include": ("mlx5_.*", "rocep.*", ""),
    "collector.rdma.device-exclude": ("mlx5_1", "", "mlx5_3"),
    "collector.links": ("all", "off", "paths"),
    "stall.threshold": ("1s", "2s", "3s"),
    "superseded.expiry": ("1h", "2h", "3h"),
    "log.level": ("debug", "warning", "error"),
    "log.format": ("json", "logfmt", "json"),
}
_SWITCHES = [option for option in OPTIONS if option.kind.metavar == "" and option.in_file]


def _expected(option: Option, text: str) -> object:
    value = option.kind.parse(text)
    return (value,) if option.repeatable else value


def _yaml(path: Path, option: Option, text: str) -> str:
    *sections, key = option.name.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    path.write_text("\n".join([*lines, f'{"  " * len(sections)}{key}: "{text}"']) + "\n")
    return str(path)


@pytest.mark.parametrize(
    "option", [o for o in OPTIONS if o.name in _THREE_VALUES], ids=lambda o: o.name
)
@pytest.mark.parametrize("origins", list(itertools.product([True, False], repeat=3)), ids=str)
def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(
    option: Option, origins: tuple[bool, bool, bool], tmp_path: Path
) -> None:
    by_flag, by_variable, by_file = origins
    flag_text, variable_text, file_text = _THREE_VALUES[option.name]
    argv = [f"{option.flag}={flag_text}"] if by_flag else []
    environ = {option.variable: variable_text} if by_variable else {}
    if by_file:
        argv += ["--config.file", _yaml(tmp_path / "c.yaml", option, file_text)]
    given = [
        text for text, present in zip(_THREE_VALUES[option.name], origins, strict=True) if present
    ]
    winner = given[0] if given else str(option.default)
    assert getattr(load(argv, environ), option.field) == _expected(option, winner)


@pytest.mark.parametrize("option", _SWITCHES, ids=lambda o: o.name)
@pytest.mark.parametrize("on", [True, False])
def test_a_switch_can_be_turned_both_ways_from_every_origin(
    option: Option, on: bool, tmp_path: Path
) -> None:
    this, other = ("true", "false") if on else ("false", "true")
    flag = option.flag if on else f"--no-{option.name}"
    file = ["--config.file", _yaml(tmp_path / "c.yaml", option, this)]
    assert getattr(load(file, {}), option.field) is on
    contrary = ["--config.file", _yaml(tmp_path / "d.yaml", option, other)]
    assert getattr(load(contrary, {option.variable: this}), option.field) is on
    assert getattr(load([*contrary, flag], {option.variable: other}), option.field) is on


def test_the_matrix_leaves_no_option_out() -> None:
    outside = {"config.file", "config.check"}
    assert {o.name for o in OPTIONS} == {*_THREE_VALUES, *outside, *(o.name for o in _SWITCHES)}


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("web: {max-requests: 7}\n")
    config = load([], {"NVMEOF_EXPORTER_CONFIG_FILE": str(file)})
    assert (config.web_max_requests, config.config_file) == (7, str(file))


def test_several_listen_addresses_come_from_every_origin(tmp_path: Path) -> None:
    both = (ListenAddress("", 1), ListenAddress("::1", 2))
    file = tmp_path / "c.yaml"
    file.write_text("web:\n  listen-address: [':1', '[::1]:2']\n")
    variable = {"NVMEOF_EXPORTER_WEB_LISTEN_ADDRESS": ":1,[::1]:2"}
    flags = ["--web.listen-address=:1", "--web.listen-address", "[::1]:2"]
    assert load(["--config.file", str(file)], {}).web_listen_address == both
    assert load([], variable).web_listen_address == both
    assert load(flags, {}).web_listen_address == both


def test_the_state_directory_of_a_systemd_unit_replaces_the_default_only() -> None:
    systemd = {"STATE_DIRECTORY": "/var/lib/private/x:/var/lib/private/y"}
    assert load([], systemd).path_state == "/var/lib/private/x"
    assert load(["--path.state=/mine"], systemd).path_state == "/mine"


def test_variables_that_kubernetes_invents_for_a_service_are_no_error() -> None:
    assert load([], {"NVMEOF_EXPORTER_PORT": "tcp://10.0.0.1:10067"}) == load([], {})


@pytest.mark.parametrize("name", ["udev", "netlink", "kmsg", "lldp"])
def test_what_is_heard_live_runs_by_default_only_for_this_machine(name: str) -> None:
    assert load([], {}).collects(name)
    assert load(["--path.sysfs=/sys/"], {}).collects(name)
    assert not load(["--path.sysfs=/tree"], {}).collects(name)
    assert load(["--path.sysfs=/tree", f"--collector.{name}"], {}).collects(name)
    assert not load([f"--no-collector.{name}"], {}).collects(name)


def test_the_kernel_log_is_not_read_without_a_path() -> None:
    assert not load(["--path.kmsg=", "--collector.kmsg"], {}).collects("kmsg")


def test_local_drives_are_shown_only_when_asked_for() -> None:
    assert not load([], {}).collects("pcie")
    assert load(["--collector.pcie"], {}).collects("pcie")


def test_every_collector_can_be_asked_for_its_state() -> None:
    assert {name: load([], {}).collects(name) for name in COLLECTORS} == {
        "udev": True,
        "netlink": True,
        "kmsg": True,
        "pcie": False,
        "rdma": True,
        "links": True,
        "lldp": True,
        "process": True,
    }


@pytest.mark.parametrize(
    ("flag", "scope", "collects"),
    [
        ("--collector.links", "paths", True),
        ("--collector.links=paths", "paths", True),
        ("--collector.links=all", "all", True),
        ("--no-collector.links", "off", False),
        ("--collector.links=off", "off", False),
    ],
)
def test_links_are_a_switch_that_may_also_say_which(flag: str, scope: str, collects: bool) -> None:
    config = load([flag], {"NVMEOF_EXPORTER_COLLECTOR_LINKS": "all"})
    assert (config.collector_links, config.collects("links")) == (scope, collects)


@pytest.mark.parametrize(
    ("text", "scope"),
    [("true", "paths"), ("yes", "paths"), ("false", "off"), ("off", "off"), ("all", "all")],
)
def test_a_switch_that_also_says_which_can_be_turned_by_a_word(
    text: str, scope: str, tmp_path: Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"collector: {{links: {text}}}\n")
    assert load([], {"NVMEOF_EXPORTER_COLLECTOR_LINKS": text}).collector_links == scope
    assert load([f"--config.file={file}"], {}).collector_links == scope


def test_what_is_matched_is_the_regular_expression_that_was_given() -> None:
    pattern = load(["--collector.rdma.device-exclude=mlx5_[0-3]"], {}).collector_rdma_device_exclude
    assert pattern is not None
    assert [bool(pattern.fullmatch(name)) for name in ("mlx5_3", "mlx5_30")] == [True, False]


def test_the_incident_interval_follows_a_shorter_poll_interval() -> None:
    assert load(["--poll.interval=10ms"], {}).poll_incident_interval == 0.01


def test_replaced_defaults_lose_against_everything_that_is_given() -> None:
    defaults = {"web.listen-address": "127.0.0.1:1"}
    assert load([], {}, defaults).web_listen_address == (ListenAddress("127.0.0.1", 1),)
    given = load(["--web.listen-address=:2"], {}, defaults)
    assert given.web_listen_address == (ListenAddress("", 2),)


@pytest.mark.parametrize("sysfs", ["/sys", "/sys/"])
def test_this_machines_paths_are_remembered(sysfs: str) -> None:
    flag = f"--path.sysfs={sysfs}"
    assert load([flag], {}).path_state == "/var/lib/nvmeof-exporter"
    assert load([flag], {"STATE_DIRECTORY": "/run/a:/run/b"}).path_state == "/run/a"


def test_the_paths_of_another_tree_are_not_remembered() -> None:
    captured = ["--path.sysfs=/captures/sys"]
    assert load(captured, {}).path_state == ""
    assert load(captured, {"STATE_DIRECTORY": "/var/lib/nvmeof-exporter"}).path_state == ""
    assert load([], {"NVMEOF_EXPORTER_PATH_SYSFS": "/captures/sys"}).path_state == ""


def test_the_paths_of_another_tree_are_remembered_where_asked_for(tmp_path: Path) -> None:
    captured = "--path.sysfs=/captures/sys"
    assert load([captured, "--path.state=/memory"], {}).path_state == "/memory"
    variable = {"NVMEOF_EXPORTER_PATH_STATE": "/memory"}
    assert load([captured], variable).path_state == "/memory"
    file = tmp_path / "c.yaml"
    file.write_text("path: {state: /memory}\n")
    assert load([captured, f"--config.file={file}"], {}).path_state == "/memory"
    assert load([captured], {}, {"path.state": "/memory"}).path_state == "/memory"


def test_reload_sees_the_file_as_it_is_now_below_the_same_flags(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("log: {level: debug}\nstall: {threshold: 1s}\n")
    config = load(["--config.file", str(file), "--stall.threshold=2s"], {})
    file.write_text("log: {level: error}\nstall: {threshold: 3s}\n")
    new = reload(config)
    assert (config.log_level, new.log_level) == ("debug", "error")
    assert new.stall_threshold == 2


def test_reload_of_a_file_gone_bad_is_refused_and_leaves_the_old_configuration(
    tmp_path: Path,
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("log: {level: debug}\n")
    config = load(["--config.file", str(file)], {})
    file.write_text("log: {level: loud}\n")
    with pytest.raises(ConfigError, match=r"^.*c\.yaml:1: log\.level: found \"loud\""):
        reload(config)
    assert config.log_level == "debug"


def test_the_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load([], {}).log_level = "debug"  # type: ignore[misc]
