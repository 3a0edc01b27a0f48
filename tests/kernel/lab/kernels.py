"""Stock Debian kernels, fetched by package name through apt and unpacked, never installed.

The mirror is the one that this machine's apt already uses; only the suites are
named here. A kernel is unpacked beside its final place and renamed into it, so
that a half download is never taken for a kernel, and kept for later runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SUITES", "Kernel", "KernelError", "cache_directory", "debian_mirror", "fetch"]

#: Debian suites whose ``linux-image-amd64`` is tested: the oldest kernel that the
#: lab supports (6.1) and the newest that Debian builds, with the ``diag/`` counters.
SUITES = ("bookworm", "trixie-backports")

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LAYOUT = 1  # part of the directory's name: a kernel kept by an older lab is fetched anew


class KernelError(RuntimeError):
    """A kernel could not be fetched; says which step failed and what apt wrote."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: ``directory`` holds ``boot`` and ``lib/modules/RELEASE``."""

    suite: str
    release: str
    directory: Path

    @property
    def version(self) -> str:
        """The first two numbers of the release, e.g. ``6.1``."""
        return ".".join(self.release.split(".")[:2])

    @property
    def modules(self) -> Path:
        """The directory that belongs at ``/lib/modules/RELEASE``."""
        return self.directory / "lib/modules" / self.release

    @property
    def image(self) -> Path:
        """The bootable image, wherever this release's packages put it."""
        candidates = (self.directory / f"boot/vmlinuz-{self.release}", self.modules / "vmlinuz")
        for candidate in candidates:
            if candidate.exists():
                return candidate
        raise KernelError(f"{self.directory}: no kernel image at any of {candidates}")


def cache_directory() -> Path:
    """Where unpacked kernels are kept: $NVMEOF_LAB_CACHE, or the user's cache directory."""
    chosen = os.environ.get("NVMEOF_LAB_CACHE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "nvmeof-exporter" / "kernels"


def fetch(suite: str) -> Kernel:
    """Return the kernel of ``suite``, downloading it unless it is in the cache.

    Remove the cache directory to move on to a newer build. Raises KernelError.
    """
    home = cache_directory() / f"{suite}-{_LAYOUT}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with _lock(home.with_suffix(".lock")):
        if not home.exists():
            _download(suite, home)
    return Kernel(suite, next((home / "lib/modules").iterdir()).name, home)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _download(suite: str, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{suite}-", dir=home.parent) as scratch:
        apt = _Apt(suite, Path(scratch))
        release = apt.newest_release()
        tree = Path(scratch) / "tree"
        for package in apt.download(release):
            _run(["dpkg-deb", "--extract", str(package), str(tree)])
        # Newer packages follow the merged /usr; depmod looks in /lib/modules alone.
        if (tree / "usr/lib/modules").is_dir():
            (tree / "lib").mkdir(exist_ok=True)
            (tree / "usr/lib/modules").rename(tree / "lib/modules")
        shutil.rmtree(tree / "usr", ignore_errors=True)
        _run(["depmod", "--basedir", str(tree), release])
        tree.rename(home)


class _Apt:
    """apt with lists and sources of its own, so that this machine's stay as they are."""

    def __init__(self, suite: str, scratch: Path) -> None:
        self._packages = scratch / "packages"
        for needed in ("lists/partial", "cache/archives/partial", "packages"):
            (scratch / needed).mkdir(parents=True)
        sources = scratch / "sources.list"
        source = f"deb [arch=amd64 signed-by={_KEYRING}] {debian_mirror()} {suite} main\n"
        sources.write_text(source)
        settings = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": scratch / "lists",
            "Dir::Cache": scratch / "cache",
            "APT::Sandbox::User": "",  # _apt may not enter a private directory
            "Acquire::Retries": "3",
        }
        self._options = [f"-o{name}={value}" for name, value in settings.items()]
        self._run("apt-get", "update", "-qq")

    def newest_release(self) -> str:
        """The release that ``linux-image-amd64`` stands for, e.g. ``6.1.0-50-amd64``."""
        found = re.search(
            r"Depends: linux-image-(\d\S*-amd64)",
            self._run("apt-cache", "depends", "linux-image-amd64"),
        )
        if not found:
            raise KernelError("linux-image-amd64 depends on no linux-image-VERSION-amd64")
        return found.group(1)

    def download(self, release: str) -> list[Path]:
        """Fetch the image and the packages it is split into, and return their files."""
        everything = self._run(
            "apt-cache", "depends", "--recurse", "--important", f"linux-image-{release}"
        )
        wanted = re.findall(
            rf"^linux-(?:base|image|binary|modules)-{re.escape(release)}$", everything, re.MULTILINE
        )
        self._run("apt-get", "download", "-qq", *sorted(set(wanted)))
        return sorted(self._packages.glob("*.deb"))

    def _run(self, tool: str, *arguments: str) -> str:
        return _run([tool, *self._options, *arguments], self._packages)


def debian_mirror() -> str:
    """The address from which this machine's apt takes its Debian release."""
    release = dict(
        line.rstrip().split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    names = {release.get("VERSION_CODENAME", ""), "stable", "oldstable", "testing"}
    targets = _run(["apt-get", "indextargets", "--format", "$(CREATED_BY) $(RELEASE) $(REPO_URI)"])
    for target in targets.splitlines():
        kind, _, rest = target.partition(" ")
        suite, _, address = rest.partition(" ")
        if kind == "Packages" and suite in names:
            return address
    raise KernelError(f"apt has no source of a Debian release among {sorted(names)}")


def _run(command: list[str], directory: Path | None = None) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return done.stdout
