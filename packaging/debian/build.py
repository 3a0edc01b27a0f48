"""Builds the Debian package: ``python packaging/debian/build.py [--output DIRECTORY]``.

The exporter needs newer libraries than Debian 12 has, and one that it has not (msgspec). So
all but PyYAML are in the package, below ``/usr/lib/nvmeof-exporter``, where no other program
sees them, in exactly the versions of ``packaging/constraints.txt``. Some are compiled for one
version of Python: a package is for the Debian release and the architecture it was built on.

The same checkout, SOURCE_DATE_EPOCH and release make the same package, bit by bit. Needs
dpkg-dev, Debian's python3, and pip for the libraries. Nothing but the output is written.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from email.parser import HeaderParser
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import Message

NAME = "nvmeof-exporter"
ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent

#: The interpreter that the package is for: Debian's own, whichever runs this program.
PYTHON = "/usr/bin/python3"

#: Who signs; packagers name themselves as for every Debian package.
MAINTAINER = (
    f"{os.environ.get('DEBFULLNAME', 'The nvmeof-exporter authors')} "
    f"<{os.environ.get('DEBEMAIL', 'nvmeof-exporter@lists.invalid')}>"
)

LAUNCHER = """\
#!/usr/bin/python3 -s
import sys

sys.path[0] = "/usr/lib/nvmeof-exporter"  # in place of /usr/bin
from nvmeof_exporter.cli import main

sys.exit(main())
"""

CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: {depends}
Suggests: lldpd, nvme-cli, prometheus, python3-jinja2
Section: net
Priority: optional
Description: Prometheus exporter for NVMe over Fabrics multipath
 Watches every path of this host's NVMe-oF subsystems (native multipath) and
 exports their true state, how long I/O really stood still at a failover, and
 whether the host survives the next one. It reads what the kernel shows, needs
 no privileges, and never writes to the machine.
 .
 With alerting rules, runbooks and Grafana dashboards.
"""

COPYRIGHT = """\
nvmeof-exporter is licensed under the Apache License, version 2.0; see
/usr/share/common-licenses/Apache-2.0.

Copyright 2026 the nvmeof-exporter authors

Below /usr/lib/nvmeof-exporter are these libraries, unchanged but for debugging
symbols, with their licences in the directories named here.

"""

CHANGELOG = """\
{name} ({version}) unstable; urgency=medium

  * Built from the sources of {upstream}; changelog.gz has what changed.

 -- {maintainer}  {date}
"""

#: What is installed where: source below the checkout, directory below the package's root.
FILES = (
    ("systemd/nvmeof-exporter.service", "lib/systemd/system"),
    ("systemd/nvmeof-exporter.socket", "lib/systemd/system"),
    ("systemd/drop-ins", "usr/share/doc/nvmeof-exporter/examples"),
    ("README.md", "usr/share/doc/nvmeof-exporter"),
    ("docs", "usr/share/doc/nvmeof-exporter"),
    ("alerts/*.yaml", "usr/share/nvmeof-exporter/alerts"),
    ("alerts/prometheus-operator", "usr/share/nvmeof-exporter/alerts"),
    ("dashboards/*.json", "usr/share/nvmeof-exporter/dashboards"),
    ("dashboards/provisioning", "usr/share/nvmeof-exporter/dashboards"),
    ("packaging/completion/_nvmeof-exporter", "usr/share/zsh/vendor-completions"),
)
#: The same under another name.
RENAMED = (
    ("packaging/debian/default", "etc/default/nvmeof-exporter"),
    ("packaging/debian/config.yaml", "etc/nvmeof-exporter/config.yaml"),
    (
        "packaging/completion/nvmeof-exporter.bash",
        "usr/share/bash-completion/completions/nvmeof-exporter",
    ),
)
COMPRESSED = (
    ("docs/man/nvmeof-exporter.8", "usr/share/man/man8/nvmeof-exporter.8.gz"),
    ("CHANGELOG.md", "usr/share/doc/nvmeof-exporter/changelog.gz"),
)
CONFFILES = ("/etc/default/nvmeof-exporter", "/etc/nvmeof-exporter/config.yaml")

#: Debian's own is new enough, and has the C library inside its wheel as a package of its own.
_DEBIANS = ("yaml", "_yaml", "pyyaml-*.dist-info")

#: Of an installed library nobody but pip needs these.
_SUPERFLUOUS = ("RECORD", "REQUESTED", "INSTALLER", "direct_url.json")


def main() -> int:
    """Build the package and write its name."""
    parser = argparse.ArgumentParser(description="Builds the Debian package.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIRECTORY")
    output: Path = parser.parse_args().output
    os.umask(0o022)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or (ROOT / "CHANGELOG.md").stat().st_mtime)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="nvmeof-exporter-deb-") as scratch:
            package = _build(Path(scratch), epoch)
            shutil.copy(package, output / package.name)
    except subprocess.CalledProcessError as error:
        command = " ".join(map(str, error.cmd))
        sys.stderr.write(f"{command}: exit status {error.returncode}\n{error.stderr or ''}")
        return 1
    sys.stdout.write(f"{output / package.name}\n")
    return 0


def _build(scratch: Path, epoch: int) -> Path:
    stage = scratch / "root"
    libraries = stage / "usr/lib/nvmeof-exporter"
    _install_libraries(scratch, libraries)
    upstream = _metadata(next(libraries.glob("nvmeof_exporter-*.dist-info")))["Version"]
    version = re.sub(r"[.]?(dev|a|b|rc)", r"~\1", upstream) + "-1"
    _write(stage / "usr/bin/nvmeof-exporter", LAUNCHER, 0o755)
    _install_files(stage)
    documents = stage / "usr/share/doc/nvmeof-exporter"
    _write(documents / "copyright", COPYRIGHT + _components(libraries))
    changelog = CHANGELOG.format(
        name=NAME,
        version=version,
        upstream=upstream,
        maintainer=MAINTAINER,
        date=formatdate(epoch),
    )
    _write_compressed(documents / "changelog.Debian.gz", changelog.encode())
    architecture = _output("dpkg", "--print-architecture")
    _describe(stage, version, architecture)
    for path in [stage, *stage.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    package = scratch / f"{NAME}_{version}_{architecture}.deb"
    _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", stage, package)
    return package


def _install_libraries(scratch: Path, target: Path) -> None:
    """Install this checkout and what it needs, as Debian's interpreter can load them."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", scratch / "wheels", ROOT)
    (wheel,) = (scratch / "wheels").iterdir()
    _run(
        *(*pip, "--python", PYTHON, "install", "--target", target, "--no-compile"),
        *("--only-binary", ":all:", "--constraint", SOURCES.parent / "constraints.txt", wheel),
    )
    for name in ("bin", *_DEBIANS):
        for path in target.glob(name):
            shutil.rmtree(path)
    for path in sorted(target.rglob("*")):
        if path.name == "__pycache__" or path.parent.name == "tests":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif path.name in _SUPERFLUOUS and path.parent.suffix == ".dist-info":
            path.unlink()
        elif path.suffix == ".so":
            _run("strip", "--strip-unneeded", path)
            path.chmod(0o644)
        elif path.is_file():
            path.chmod(0o644)


def _install_files(stage: Path) -> None:
    for pattern, directory in FILES:
        for source in sorted(ROOT.glob(pattern)):
            target = stage / directory
            target.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                name = "." if source.name in ("docs", "drop-ins") else source.name
                ignored = shutil.ignore_patterns("__pycache__", "man")
                shutil.copytree(source, target / name, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)
    for source_name, name in RENAMED:
        _write(stage / name, (ROOT / source_name).read_text())
    for source_name, name in COMPRESSED:
        _write_compressed(stage / name, (ROOT / source_name).read_bytes())
    for path in stage.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
        elif path.parent.name != "bin":
            path.chmod(0o644)


def _components(libraries: Path) -> str:
    """List every library with its version, its licence and where its text is."""
    lines = []
    for info in sorted(libraries.glob("*.dist-info")):
        metadata = _metadata(info)
        if metadata["Name"] == NAME:
            continue
        licence = metadata["License-Expression"] or metadata["License"] or ""
        if not licence or "\n" in licence:
            classifiers = metadata.get_all("Classifier", [])
            named = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License ::")]
            licence = ", ".join(named)
        lines.append(f"{metadata['Name']} {metadata['Version']}: {licence}\n    {info.name}\n")
    return "".join(lines)


def _metadata(info: Path) -> Message:
    return HeaderParser().parsestr((info / "METADATA").read_text())


def _describe(stage: Path, version: str, architecture: str) -> None:
    """Write the control files."""
    control = stage / "DEBIAN"
    size = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file())
    this, following = _output(
        PYTHON,
        "-c",
        "from sys import version_info as v; print(f'{v[0]}.{v[1]} {v[0]}.{v[1] + 1}')",
    ).split()
    # pip takes wheels for the glibc of this release, or for an older one (PEP 600).
    libc = _output("getconf", "GNU_LIBC_VERSION").split()[1]
    depends = (
        f"python3 (>= {this}~), python3 (<< {following}~), python3-yaml (>= 6), "
        f"libc6 (>= {libc}), libudev1"
    )
    described = CONTROL.format(
        name=NAME,
        version=version,
        architecture=architecture,
        maintainer=MAINTAINER,
        size=size // 1024,
        depends=depends,
    )
    _write(control / "control", described)
    _write(control / "conffiles", "".join(f"{name}\n" for name in CONFFILES))
    for script in ("postinst", "prerm", "postrm"):
        _write(control / script, (SOURCES / script).read_text(), 0o755)
    sums = _output("sh", "-c", 'cd "$1" && find usr lib -type f -exec md5sum {} +', "-", stage)
    _write(control / "md5sums", "\n".join(sorted(sums.splitlines(), key=lambda s: s[34:])) + "\n")


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _write_compressed(path: Path, contents: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(contents, 9, mtime=0))


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
