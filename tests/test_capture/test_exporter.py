from __future__ import annotations

import json

import pytest

from nvmeof_exporter.capture.exporter import names_in

STATUS = {
    "node": "gpu17",
    "subsystems": [
        {"nqn": "x", "paths": [{"path": "a", "switches": ["leaf-1"]}, {"path": "b"}]},
        {"nqn": "y", "paths": [{"path": "a", "switches": ["leaf-1", "leaf-2"]}]},
    ],
}


def test_a_status_names_its_node_and_the_switches() -> None:
    told = names_in("exporter/status.json", json.dumps(STATUS).encode())
    assert told == {"gpu17", "leaf-1", "leaf-2"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"node": 1}', b"\xff"])
def test_what_is_no_status_names_nobody(content: bytes) -> None:
    assert names_in("exporter/status.json", content) == set()


def test_neither_does_any_other_answer() -> None:
    assert names_in("exporter/events.json", json.dumps(STATUS).encode()) == set()
