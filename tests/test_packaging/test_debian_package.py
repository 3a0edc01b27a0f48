"""The Debian package in a throw-away Debian root: installed, used, upgraded, removed, purged.

What systemd makes of it is tested in the kernel lab (tests/kernel/test_systemd_unit.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernel.lab.kernels import debian_mirror

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "packaging/constraints.txt"

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

#: What the package depends on, beside what every Debian has.
DEPENDENCIES = ("python3-minimal", "python3", "python3-yaml", "libudev1")


#: Of a checkout, what is no source.
NO_SOURCES = shutil.ignore_patterns(".*", "__pycache__", "artefacts", "dist", "node_modules")


def build(checkout: Path, target: Path) -> Path:
    done = subprocess.run(
        [sys.executable, checkout / "packaging/debian/build.py", "--output", target],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1788134400"},
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as they are now, whatever becomes of them during the tests."""
    return copied(ROOT, tmp_path_factory.mktemp("checkout") / "sources")


def copied(checkout: Path, target: Path) -> Path:
    """The same files elsewhere, with the time of now."""
    shutil.copytree(checkout, target, ignore=NO_SOURCES, copy_function=shutil.copy)
    return target


@pytest.fixture(scope="module")
def package(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, tmp_path_factory.mktemp("deb"))


class Root:
    """A Debian of its own, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        release = Path("/etc/os-release").read_text()
        codename = re.search(r"VERSION_CODENAME=(\w+)", release)
        assert codename is not None, "these tests are for Debian"
        self._run(
            "debootstrap",
            "--variant=minbase",
            f"--include={','.join(DEPENDENCIES)}",
            codename[1],
            str(directory),
            debian_mirror(),
        )

    def run(self, *command: str) -> str:
        """Run a command in it, with processes of its own."""
        mount = f'mount -t proc proc "{self.directory}/proc" && exec chroot "{self.directory}" "$@"'
        return self._run("unshare", "--mount", "--pid", "--fork", "sh", "-c", mount, "-", *command)

    def dpkg(self, *arguments: str | Path) -> str:
        """Run dpkg in it; packages are given by their path outside."""
        names = []
        for argument in arguments:
            if isinstance(argument, Path):
                shutil.copy(argument, self.directory / "tmp")
                names.append(f"/tmp/{argument.name}")  # noqa: S108 - inside of the root
            else:
                names.append(argument)
        return self.run("dpkg", *names)

    def files(self) -> set[str]:
        """Every path in it that is not dpkg's own, nor a log."""
        left_out = ("proc", "tmp", "dev", "var/log", "var/lib/dpkg", "var/cache")
        found: set[str] = set()
        for path, directories, files in os.walk(self.directory):
            inside = os.path.relpath(path, self.directory)
            if inside in left_out:
                directories.clear()
                continue
            found.update(os.path.normpath(f"{inside}/{name}") for name in [*directories, *files])
        return found

    @staticmethod
    def _run(*command: str) -> str:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return Root(tmp_path_factory.mktemp("debian"))


@pytest.fixture
def clean(root: Root) -> Iterator[Root]:
    """A root in which the package is not installed, and has left nothing at the end."""
    before = root.files()
    yield root
    root.dpkg("--purge", "nvmeof-exporter")
    # systemd's, shared by all services with an account of their own; made by the tests here.
    with contextlib.suppress(FileNotFoundError):
        (root.directory / "var/lib/private").rmdir()
    assert root.files() == before


@pytest.fixture(scope="module")
def installed(root: Root, package: Path) -> Root:
    """The same with the package; it comes last, for nobody removes it."""
    root.dpkg("--install", package)
    return root


def newer(package: Path, directory: Path) -> Path:
    """The same package as the next version, with a changed conffile."""
    tree = directory / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^(Version: .*)$", r"\1.1", control.read_text(), flags=re.MULTILINE))
    config = tree / "etc/nvmeof-exporter/config.yaml"
    config.write_text("# of the newer version\n")
    target = directory / "newer.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", tree, target], check=True, capture_output=True
    )
    return target


def test_lintian_finds_no_error(package: Path) -> None:
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on=error", package],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_same_sources_make_the_same_package(
    checkout: Path, package: Path, tmp_path: Path
) -> None:
    elsewhere = copied(checkout, tmp_path / "elsewhere")
    again = build(elsewhere, tmp_path / "deb").read_bytes()
    assert again == package.read_bytes(), "they differ"


def test_every_library_inside_is_pinned() -> None:
    pinned = set(re.findall(r"^([\w.-]+)==", CONSTRAINTS.read_text(), re.MULTILINE))
    assert {_plain(name) for name in _needed("nvmeof-exporter")} <= {_plain(n) for n in pinned}


def _needed(name: str) -> Iterator[str]:
    for requirement in distribution(name).requires or ():
        needed, _, condition = requirement.partition(";")
        if "extra" in condition or "python_version <" in condition.replace('"', ""):
            continue
        found = re.match(r"[\w.-]+", needed)
        assert found is not None
        yield found[0]
        yield from _needed(found[0])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def remember(root: Root) -> Path:
    """Leave a memory of paths, as the service does."""
    memory = root.directory / "var/lib/private/nvmeof-exporter/paths.json"
    memory.parent.mkdir(parents=True)
    memory.write_text("{}")
    return memory


def enabled(root: Root, unit: str) -> Path:
    """The link that starts a unit with the machine."""
    return root.directory / "etc/systemd/system/multi-user.target.wants" / unit


def test_an_upgrade_keeps_what_the_administrator_changed(
    clean: Root, package: Path, tmp_path: Path
) -> None:
    clean.dpkg("--install", package)
    config = clean.directory / "etc/nvmeof-exporter/config.yaml"
    config.write_text("poll: {interval: 1s}\n")
    memory = remember(clean)
    enabled(clean, "nvmeof-exporter.service").unlink()  # systemctl disable
    clean.dpkg("--force-confold", "--install", newer(package, tmp_path))
    assert config.read_text() == "poll: {interval: 1s}\n"
    assert memory.exists()
    assert not enabled(clean, "nvmeof-exporter.service").is_symlink()
    assert clean.run("nvmeof-exporter", "--version").startswith("nvmeof-exporter ")


def test_removed_it_leaves_settings_and_memory_and_purged_nothing(
    clean: Root, package: Path
) -> None:
    before = clean.files()
    clean.dpkg("--install", package)
    memory = remember(clean)
    clean.dpkg("--remove", "nvmeof-exporter")
    assert memory.exists()
    assert (clean.directory / "etc/nvmeof-exporter/config.yaml").exists()
    assert not (clean.directory / "usr/lib/nvmeof-exporter").exists()
    assert not (clean.directory / "usr/bin/nvmeof-exporter").exists()
    clean.dpkg("--purge", "nvmeof-exporter")
    assert clean.files() - before == {"var/lib/private"}


def test_installed_it_runs_on_debians_python(installed: Root) -> None:
    assert installed.run("nvmeof-exporter", "--version").startswith("nvmeof-exporter ")
    settings = "--config.file=/etc/nvmeof-exporter/config.yaml"
    checked = installed.run("nvmeof-exporter", "--config.check", settings)
    assert checked == "configuration OK: /etc/nvmeof-exporter/config.yaml\n"


def test_installed_it_serves(installed: Root) -> None:
    """Everything that only a running exporter imports is there: one poll, one scrape."""
    (installed.directory / "tmp/scrape.py").write_text(SCRAPE)
    told = installed.run("python3", "/tmp/scrape.py")  # noqa: S108 - inside of the root
    assert "nvmeof_exporter_build_info{" in told


SCRAPE = """
import re, subprocess, urllib.request
command = ["nvmeof-exporter", "demo", "--web.listen-address=127.0.0.1:0", "--path.state="]
pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
with subprocess.Popen(command, text=True, **pipes) as demo:
    for line in demo.stderr:
        found = re.search(r"msg=listening address=(\\S+)", line)
        if found:
            break
    print(urllib.request.urlopen(f"http://{found[1]}/metrics").read().decode())
    demo.terminate()
"""


def test_installed_it_starts_with_the_machine(installed: Root) -> None:
    assert enabled(installed, "nvmeof-exporter.service").is_symlink()
    assert not enabled(installed, "nvmeof-exporter.socket").is_symlink()


def test_installed_it_need_not_compile(installed: Root) -> None:
    library = installed.directory / "usr/lib/nvmeof-exporter/nvmeof_exporter"
    assert list((library / "__pycache__").glob("daemon.*.pyc"))
