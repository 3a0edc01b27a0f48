"""The units as systemd itself judges them: without a mistake, and with little to lose."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from nvmeof_exporter.config.options import OPTIONS

pytestmark = pytest.mark.packaging  # systemd-analyze is there where systemd is

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "systemd"
DROP_INS = sorted((UNITS / "drop-ins").glob("*.conf"))

#: The program is not installed where tests run, and systemd looks for it.
PROGRAM = "/usr/bin/nvmeof-exporter"
STAND_IN = "/bin/true"

#: Tenths: 0 is nothing to lose, 100 everything. systemd calls up to 3.9 "ok".
MOST_EXPOSED = 15


def analyze(*arguments: str, units: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SYSTEMD_COLORS": "0"}
    if units is not None:
        environment["SYSTEMD_UNIT_PATH"] = f"{units}:"  # and then its own places
    return subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def installed(directory: Path, *drop_ins: Path) -> Path:
    """Copy the units, with drop-ins, to where systemd may find what they start."""
    for unit in UNITS.glob("nvmeof-exporter.*"):
        (directory / unit.name).write_text(unit.read_text().replace(PROGRAM, STAND_IN))
    extra = directory / "nvmeof-exporter.service.d"
    extra.mkdir()
    for drop_in in drop_ins:
        (extra / drop_in.name).write_text(drop_in.read_text())
    return directory


@pytest.mark.parametrize("drop_ins", [[], DROP_INS], ids=["as shipped", "with drop-ins"])
def test_systemd_finds_no_mistake_in_the_units(drop_ins: list[Path], tmp_path: Path) -> None:
    units = installed(tmp_path, *drop_ins)
    for unit in ("nvmeof-exporter.service", "nvmeof-exporter.socket"):
        done = analyze("verify", "--man=no", str(units / unit), units=units)
        ours = [line for line in done.stderr.splitlines() if "nvmeof" in line]
        assert ours == []


def test_a_mistake_would_be_found(tmp_path: Path) -> None:
    units = installed(tmp_path)
    unit = units / "nvmeof-exporter.service"
    unit.write_text(unit.read_text().replace("ProtectSystem=", "ProtectSystm="))
    done = analyze("verify", "--man=no", str(unit), units=units)
    assert re.search("Unknown key.*'ProtectSystm'", done.stderr)


def test_the_service_as_shipped_has_little_to_lose() -> None:
    done = exposure(UNITS / "nvmeof-exporter.service")
    assert done.returncode == 0, done.stdout
    level = re.search(r"Overall exposure level .*: (\d\.\d) ", done.stdout)
    assert level is not None, done.stdout
    assert float(level[1]) * 10 <= MOST_EXPOSED


def test_what_is_not_taken_away_is_what_it_needs() -> None:
    """Each of these is explained in docs/security.md; another one would have to be."""
    done = analyze(
        "security", "--offline=true", "--json=short", str(UNITS / "nvmeof-exporter.service")
    )
    left = {check["json_field"] for check in json.loads(done.stdout) if check["exposure"]}
    assert left == {
        "DeviceAllow",
        "IPAddressDeny",
        "PrivateNetwork",
        "ProcSubset",
        "ProtectKernelLogs",
        "RestrictAddressFamilies_AF_INET_INET6",
        "RestrictAddressFamilies_AF_NETLINK",
        "RestrictAddressFamilies_AF_UNIX",
        "RootDirectoryOrRootImage",
    }
    explained = (ROOT / "docs/security.md").read_text()
    settings = {field.partition("_")[0] for field in left} - {"RootDirectoryOrRootImage"}
    assert {name for name in settings if f"`{name}=" not in explained} == set()


def exposure(unit: Path) -> subprocess.CompletedProcess[str]:
    return analyze(
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={MOST_EXPOSED}",
        str(unit),
    )


def test_variables_that_the_units_name_are_of_this_program() -> None:
    known = {option.variable for option in OPTIONS}
    texts = [path.read_text() for path in (*UNITS.glob("nvmeof-exporter.*"), *DROP_INS)]
    texts.append((ROOT / "packaging/debian/default").read_text())
    named = {name for text in texts for name in re.findall(r"NVMEOF_EXPORTER_[A-Z_]+", text)}
    assert named
    assert named <= known
