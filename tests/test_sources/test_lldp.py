"""The switch at the other end of each cable, and why it cannot be told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.sources.lldp import LldpFailed, LldpUnavailable, parse, switches
from tests.fixtures.descriptors import readable

if TYPE_CHECKING:
    from pathlib import Path

LEAF1 = ("mac", "02:00:00:00:01:01")
LEAF2 = ("local", "leaf2")

#: As lldpcli 1.0.16 writes it.
ANSWER = b"""\
{
  "lldp": [
    {
      "interface": [
        {
          "name": "eth0",
          "via": "LLDP",
          "rid": "1",
          "age": "0 day, 00:00:02",
          "chassis": [
            {
              "id": [
                {
                  "type": "mac",
                  "value": "02:00:00:00:01:01"
                }
              ],
              "name": [
                {
                  "value": "leaf1"
                }
              ],
              "capability": [
                {
                  "type": "Bridge",
                  "enabled": true
                },
                {
                  "type": "Station",
                  "enabled": false
                }
              ]
            }
          ],
          "port": [
            {
              "id": [
                {
                  "type": "ifname",
                  "value": "swp1"
                }
              ],
              "ttl": [
                {
                  "value": "120"
                }
              ]
            }
          ]
        }
      ]
    }
  ]
}
"""


def neighbour(
    netdev: str, chassis: tuple[str, str], *capabilities: str, via: str = "LLDP"
) -> dict[str, object]:
    kind, value = chassis
    return {
        "name": netdev,
        "via": via,
        "chassis": [
            {
                "id": [{"type": kind, "value": value}],
                "capability": [{"type": name, "enabled": True} for name in capabilities],
            }
        ],
    }


def told(*neighbours: object) -> dict[str, str]:
    return parse(json.dumps({"lldp": [{"interface": list(neighbours)}]}).encode())


class TestAnAnswer:
    def test_names_the_chassis_behind_an_interface(self) -> None:
        assert parse(ANSWER) == {"eth0": "mac 02:00:00:00:01:01"}

    def test_without_neighbours_is_empty(self) -> None:
        assert parse(b'{\n  "lldp": [\n    {\n      \n    }\n  ]\n}\n\n') == {}

    def test_shows_which_interfaces_lead_to_one_switch(self) -> None:
        assert told(
            neighbour("eth0", LEAF1), neighbour("eth1", LEAF1), neighbour("eth2", LEAF2)
        ) == {
            "eth0": "mac 02:00:00:00:01:01",
            "eth1": "mac 02:00:00:00:01:01",
            "eth2": "local leaf2",
        }

    def test_of_several_neighbours_takes_the_one_that_forwards(self) -> None:
        machine, firmware = ("mac", "52:54:00:00:00:01"), ("mac", "02:00:00:00:09:09")
        listed = [
            neighbour("eth0", machine, "Station"),
            neighbour("eth0", LEAF1, "Bridge", "Router"),
            neighbour("eth0", firmware),
        ]
        assert told(*listed) == told(*reversed(listed)) == {"eth0": "mac 02:00:00:00:01:01"}

    def test_of_several_protocols_takes_the_standard_one(self) -> None:
        cisco = neighbour("eth0", ("local", "leaf1.example.org"), "Bridge", via="CDPv2")
        assert told(cisco) == {"eth0": "local leaf1.example.org"}
        assert told(cisco, neighbour("eth0", LEAF1)) == {"eth0": "mac 02:00:00:00:01:01"}

    def test_leaves_out_an_interface_with_two_switches(self) -> None:
        listed = [neighbour("eth0", LEAF1, "Bridge"), neighbour("eth0", LEAF2, "Bridge")]
        assert told(*listed, neighbour("eth1", LEAF2)) == {"eth1": "local leaf2"}

    def test_takes_a_neighbour_heard_twice_for_one(self) -> None:
        assert told(neighbour("eth0", LEAF2), neighbour("eth0", LEAF2)) == {"eth0": "local leaf2"}

    @pytest.mark.parametrize(
        "strange",
        [
            {},
            None,
            "eth0",
            {"name": 7, "chassis": [{"id": [{"type": "mac", "value": "x"}]}]},
            {"name": "eth0"},
            {"name": "eth0", "chassis": [{"id": []}]},
            {"name": "eth0", "chassis": [{"id": [{"type": "mac"}]}]},
            {"name": "eth0", "chassis": [{"id": [{"type": "mac", "value": ""}]}]},
        ],
    )
    def test_skips_what_it_cannot_tell(self, strange: object) -> None:
        assert told(strange, neighbour("eth1", LEAF2)) == {"eth1": "local leaf2"}

    def test_may_hold_any_bytes_that_a_neighbour_sends(self) -> None:
        listed = {"lldp": [{"interface": [neighbour("eth0", ("local", "leaf@\tx"))]}]}
        sent = json.dumps(listed).encode().replace(b"@", b"\xff").replace(b"\\t", b"\t")
        assert parse(sent) == {"eth0": "local leaf\N{REPLACEMENT CHARACTER}\tx"}

    @pytest.mark.parametrize(
        ("output", "reason"),
        [
            (b"", "what is no JSON"),
            (b"{", "what is no JSON"),
            (b"[" * 100_000, "what is no JSON"),
            (b"[]", "without a list of neighbours"),
            (b'{"neighbors": []}', "without a list of neighbours"),
        ],
    )
    def test_that_makes_no_sense_is_refused_with_the_reason(
        self, output: bytes, reason: str
    ) -> None:
        with pytest.raises(LldpFailed, match=reason):
            parse(output)

    @given(st.integers(0, len(ANSWER)), st.binary(max_size=3), st.integers(0, 3))
    def test_may_be_damaged_anywhere(self, position: int, inserted: bytes, cut: int) -> None:
        try:
            found = parse(ANSWER[:position] + inserted + ANSWER[position + cut :])
        except LldpFailed:
            return
        assert len(found) <= 1
        assert all(text for pair in found.items() for text in pair)


KEYS = st.sampled_from(
    ["lldp", "interface", "name", "via", "chassis", "id", "type", "value", "capability", "enabled"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)


@given(JSON)
def test_any_json_in_the_place_of_the_list_is_read_or_skipped(value: object) -> None:
    found = parse(json.dumps({"lldp": value}).encode())
    assert all(text for pair in found.items() for text in pair)


def lldpcli(code: str) -> tuple[str, ...]:
    """A program in the place of lldpcli."""
    return (sys.executable, "-c", code)


def complaining(text: str, status: int = 1) -> tuple[str, ...]:
    return lldpcli(f"import sys; sys.stderr.write({text!r}); sys.exit({status})")


class TestAsking:
    def test_is_for_the_neighbours_in_json0_and_nothing_else(self, tmp_path: Path) -> None:
        asked = tmp_path / "asked"
        code = f"import sys; open({str(asked)!r}, 'w').write(' '.join(sys.argv[1:]))"
        code += "; print('{\"lldp\": [{}]}')"
        assert switches(lldpcli(code), seconds=30) == {}
        assert asked.read_text() == "-f json0 show neighbors"

    def test_without_lldpcli_finds_nobody(self, tmp_path: Path) -> None:
        missing = str(tmp_path / "lldpcli")
        with pytest.raises(LldpUnavailable, match="lldpcli is not installed, or not in PATH"):
            switches((missing,))

    @pytest.mark.parametrize("error", ["No such file or directory", "Connection refused"])
    def test_without_lldpd_finds_nobody(self, error: str) -> None:
        line = "2026-01-02T03:04:05 [WARN/control] unable to connect to socket /run/lldpd.socket: "
        with pytest.raises(LldpUnavailable) as caught:
            switches(complaining(line + error + "\n"), seconds=30)
        assert str(caught.value) == (
            f"lldpd does not run: unable to connect to socket /run/lldpd.socket: {error}"
        )

    def test_without_permission_for_the_socket_fails(self) -> None:
        reason = "unable to connect to socket /run/lldpd.socket: Permission denied"
        line = f"2026-01-02T03:04:05 [WARN/control] {reason}\n"
        with pytest.raises(LldpFailed) as caught:
            switches(complaining(line), seconds=30)
        assert str(caught.value) == reason

    def test_without_permission_for_the_program_fails(self, tmp_path: Path) -> None:
        program = tmp_path / "lldpcli"
        program.write_text("#!/bin/sh\n")
        with pytest.raises(LldpFailed, match="lldpcli cannot be run: Permission denied"):
            switches((str(program),))

    def test_one_that_fails_without_a_word_tells_its_status(self) -> None:
        with pytest.raises(LldpFailed, match="ended with status 3"):
            switches(complaining("", 3), seconds=30)

    def test_a_flood_of_complaints_is_cut_to_its_last_line(self) -> None:
        flood = "import sys; sys.exit('x' * 500_000 + '\\n' + 'y' * 300)"
        with pytest.raises(LldpFailed) as caught:
            switches(lldpcli(flood), seconds=30)
        assert str(caught.value) == "y" * 200

    def test_an_endless_answer_is_refused(self) -> None:
        endless = lldpcli("while True: print(' ' * 65536)")
        with pytest.raises(LldpFailed, match="answered more than 4194304 bytes"):
            switches(endless, seconds=30)

    @pytest.mark.parametrize(
        "code",
        [
            "import time; time.sleep(600)",
            "import os, time; os.close(1); os.close(2); time.sleep(600)",
            "while True: __import__('sys').stderr.write('x' * 65536)",
        ],
        ids=["silent", "closed", "complaining"],
    )
    def test_one_that_does_not_end_is_ended(
        self, code: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started: list[subprocess.Popen[bytes]] = []

        def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
            started.append(real(*args, **options))
            return started[-1]

        real = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", start)
        with pytest.raises(LldpFailed, match=r"did not answer within 0\.5 s"):
            switches(lldpcli(code), seconds=0.5)
        assert [process.returncode for process in started] == [-signal.SIGKILL]

    def test_what_a_wrapper_has_started_is_ended_with_it(self, tmp_path: Path) -> None:
        held = tmp_path / "held"
        os.mkfifo(held)
        reading = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
        wrapper = (
            f"import subprocess; subprocess.run(['sleep', '600'], stdout=open({str(held)!r}, 'w'))"
        )
        with pytest.raises(LldpFailed, match="did not answer"):
            switches(lldpcli(wrapper), seconds=1)
        assert readable([reading], 10) == [reading]
        assert os.read(reading, 1) == b""  # nobody holds it any more
        os.close(reading)
