"""What a good configuration file may hold, and what is no file to read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.config.errors import ConfigError
from nvmeof_exporter.config.file import parse_file, read_file
from nvmeof_exporter.config.model import ExpectedSubsystem

if TYPE_CHECKING:
    from pathlib import Path


def test_keys_are_nested_by_the_dots_of_the_option_names() -> None:
    contents = parse_file(b"web:\n  config:\n    file: /w.yaml\n  max-requests: 3\n", "c.yaml")
    assert {name: found.texts for name, found in contents.options.items()} == {
        "web.config.file": ("/w.yaml",),
        "web.max-requests": ("3",),
    }


def test_a_dotted_key_means_the_same_as_a_nested_one() -> None:
    contents = parse_file(b"poll.interval: 1s\nweb: {config.file: /w}\n", "c.yaml")
    assert set(contents.options) == {"poll.interval", "web.config.file"}


def test_a_key_with_details_below_it_is_a_value_or_a_section() -> None:
    for data, names in (
        (b"collector: {rdma: false}", {"collector.rdma"}),
        (b"collector: {rdma: {device-include: a}}", {"collector.rdma.device-include"}),
        (
            b"collector: {rdma: true, rdma.device-exclude: b}",
            {"collector.rdma", "collector.rdma.device-exclude"},
        ),
        (b"collector: {rdma: }", set()),
    ):
        assert set(parse_file(data, "c.yaml").options) == names


def test_a_setting_knows_its_line() -> None:
    contents = parse_file(b"# one\n\nlog:\n  level: debug\n", "c.yaml")
    assert contents.options["log.level"].where == "c.yaml:4: log.level"


def test_an_empty_file_and_empty_sections_set_nothing() -> None:
    for data in (b"", b"# only a comment\n", b"web:\nexpected:\n", b"---\n"):
        assert parse_file(data, "c.yaml") == ({}, (), None)


def test_expected_subsystems_are_given_by_their_paths_or_by_a_number() -> None:
    data = b"""
expected:
  - nqn: nqn.2014-08.org.example:fast
    paths: ["tcp:10.0.0.2:4420", "rdma:[fe80::1]:4420@[fe80::2]%eth0"]
  - {nqn: "nqn.2014-08.org.example:archive", count: 2}
"""
    assert parse_file(data, "c.yaml").expected == (
        ExpectedSubsystem(
            nqn="nqn.2014-08.org.example:fast",
            count=2,
            paths=("tcp:10.0.0.2:4420", "rdma:[fe80::1]:4420@[fe80::2]%eth0"),
        ),
        ExpectedSubsystem(nqn="nqn.2014-08.org.example:archive", count=2),
    )


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "config.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"config\.yaml: is no regular file"):
        read_file(str(pipe))
