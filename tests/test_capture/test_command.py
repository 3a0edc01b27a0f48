"""The command as a user meets it."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import subprocess
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.capture import facts
from nvmeof_exporter.capture.verify import refuse_broken
from nvmeof_exporter.cli import main
from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.demo.nodes import demo_node
from nvmeof_exporter.demo.tree import Tree
from nvmeof_exporter.memory import Memory, RememberedPath, RememberedSubsystem, save
from nvmeof_exporter.model import PathId
from nvmeof_exporter.terminal import writing
from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.running import run_to_the_end, running

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.thorough

NODE = """
subsystem nvme-subsys0 subsysnqn=nqn.2026-01.com.acme:vault serial=ACME4711X model=Vault
controller nvme0 in nvme-subsys0 transport=tcp state=live
set nvme0 address=traddr=10.77.1.2,trsvcid=4420,host_traddr=10.77.1.9,src_addr=10.77.1.9
set nvme0 hostnqn=nqn.2014-08.org.nvmexpress:uuid:4a6f6c6c-7950-6174-6873-0000000000ab
set nvme0 hostid=4a6f6c6c-7950-6174-6873-0000000000ab subsysnqn=nqn.2026-01.com.acme:vault
path nvme0c0n1 of nvme0 nsid=1 ana_state=optimized wwid=eui.0025385b71b00af1
head nvme0n1 in nvme-subsys0 nsid=1 wwid=eui.0025385b71b00af1
"""

#: What must be nowhere in a redacted bundle.
NAMES = ("acme", "ACME4711X", "10.77.", "4a6f6c6c", "25385b71", "secret-host")

#: Nothing listens on this port: it is reserved for multiplexing TCP services (RFC 1078).
NOBODY = "--web.listen-address=127.0.0.1:1"


@pytest.fixture
def sysfs(tmp_path: Path) -> str:
    return NodeFiles(NODE, tmp_path / "node/sys").sysfs


@pytest.fixture
def procfs(tmp_path: Path) -> str:
    directory = tmp_path / "node/proc"
    directory.mkdir(parents=True)
    (directory / "version").write_text("Linux version 7.3\n")
    (directory / "diskstats").write_text("8 0 sda 1\n259 0 nvme0n1 2\n259 1 nvme0c0n1 3\n")
    return str(directory)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("bundle.tar.xz")


def unpacked(file: Path) -> Path:
    with tarfile.open(file) as tar:
        tar.extractall("unpacked", filter="data")
    return Path("unpacked") / file.name.removesuffix(".tar.xz")


def every_byte(bundle: Path) -> bytes:
    """Names, targets and contents of all that is in a bundle."""
    found = []
    for path in sorted(bundle.rglob("*")):
        found.append(os.fsencode(path))
        if path.is_symlink():
            found.append(os.fsencode(os.readlink(path)))
        elif path.is_file():
            found.append(path.read_bytes())
    return b"\n".join(found)


class TestContents:
    def test_the_summary_says_what_is_there_and_what_is_not(
        self, sysfs: str, procfs: str, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        flags = ["--path.sysfs", sysfs, "--path.procfs", procfs, NOBODY]
        assert main(["capture", *flags, str(file)]) == 0
        out = capsys.readouterr().out.replace(f"{file.stat().st_size:,} bytes", "N bytes")
        assert out == (
            "bundle.tar.xz: N bytes; 16 files of the tree, settings.json, proc/diskstats, "
            "proc/version\n"
            "not there: exporter/metrics.prom, exporter/events.json, exporter/status.json: "
            "no exporter answers at http://127.0.0.1:1: connection refused\n"
            "not there: log/kernel.txt, log/unit.txt: the tree is not this machine's\n"
            "it names NQNs, serial numbers and addresses; --redact replaces them\n"
        )

    def test_of_the_disks_nvme_is_kept(self, sysfs: str, procfs: str, file: Path) -> None:
        main(["capture", "--path.sysfs", sysfs, "--path.procfs", procfs, NOBODY, str(file)])
        disks = (unpacked(file) / "proc/diskstats").read_text()
        assert disks == "259 0 nvme0n1 2\n259 1 nvme0c0n1 3\n"

    def test_every_setting_comes_with_its_origin(
        self, sysfs: str, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("settings.yaml").write_text(
            "poll:\n  interval: 200ms\nexpected:\n- nqn: nqn.2026-01.com.acme:vault\n  count: 2\n"
        )
        monkeypatch.setenv("NVMEOF_EXPORTER_STALL_THRESHOLD", "1s")
        main(["capture", "--path.sysfs", sysfs, "--config.file=settings.yaml", NOBODY, str(file)])
        told = json.loads((unpacked(file) / "settings.json").read_text())
        settings = told["settings"]
        assert settings["path.sysfs"] == {"value": sysfs, "from": "--path.sysfs"}
        assert settings["poll.interval"] == {
            "value": 0.2,
            "from": "settings.yaml:2: poll.interval",
        }
        assert settings["stall.threshold"] == {
            "value": 1.0,
            "from": "NVMEOF_EXPORTER_STALL_THRESHOLD",
        }
        assert settings["log.level"] == {"value": "info", "from": "default"}
        assert told["expected"] == [{"nqn": "nqn.2026-01.com.acme:vault", "count": 2, "paths": []}]
        assert told["policy"]["preset"] == "conservative"

    def test_remembered_paths_are_taken_along(self, sysfs: str, file: Path) -> None:
        path = RememberedPath(PathId("tcp", "10.77.2.2", "4420"), 1.0, 2.0)
        memory = Memory(subsystems={"nqn.2026-01.com.acme:vault": RememberedSubsystem(1, (path,))})
        save("memory", memory)
        main(["capture", "--path.sysfs", sysfs, "--path.state=memory", NOBODY, str(file)])
        kept = unpacked(file) / "state/paths.json"
        assert kept.read_bytes() == Path("memory/paths.json").read_bytes()

    def test_a_running_exporter_adds_what_it_tells(self, sysfs: str, file: Path) -> None:
        with running("--path.sysfs", sysfs) as exporter:
            address = exporter.url.removeprefix("http://").rstrip("/")
            main(["capture", "--path.sysfs", sysfs, f"--web.listen-address={address}", str(file)])
        bundle = unpacked(file)
        assert "nvmeof_path_state{" in (bundle / "exporter/metrics.prom").read_text()
        assert json.loads((bundle / "capture.json").read_text())["exporter"] == f"http://{address}"

    def test_what_another_tree_or_this_machine_tells_is_left_out(
        self, sysfs: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = NodeFiles(NODE, tmp_path / "other/sys").sysfs
        with running("--path.sysfs", other) as exporter:
            address = exporter.url.removeprefix("http://").rstrip("/")
            main(["capture", "--path.sysfs", sysfs, f"--web.listen-address={address}", str(file)])
        assert capsys.readouterr().out.splitlines()[1:-1] == [
            "not there: proc/diskstats, proc/version, log/kernel.txt, log/unit.txt: "
            "the tree is not this machine's",
            "not there: exporter/metrics.prom, exporter/events.json, exporter/status.json: "
            f"the exporter at http://{address} watches {other}, not {sysfs}",
        ]
        assert sorted(os.listdir(unpacked(file))) == [
            "README.txt",
            "capture.json",
            "settings.json",
            "sys",
        ]

    def test_an_exporter_named_by_its_address_is_asked_in_any_case(
        self, sysfs: str, file: Path, tmp_path: Path
    ) -> None:
        other = NodeFiles(NODE, tmp_path / "other/sys").sysfs
        with running("--path.sysfs", other) as exporter:
            main(["capture", "--path.sysfs", sysfs, f"--url={exporter.url}", str(file)])
        told = json.loads((unpacked(file) / "exporter/status.json").read_text())
        assert told["sysfs"] == other

    def test_a_directory_that_is_no_tree_makes_no_bundle(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("empty").mkdir()
        assert main(["capture", "--path.sysfs=empty", NOBODY, str(file)]) == 1
        assert capsys.readouterr().err == (
            "nvmeof-exporter: error: --path.sysfs: 'empty': no file of a tree like /sys could be "
            "read in it; nothing is written\n"
        )
        assert not file.exists()

    def test_the_manifest_says_which_versions(self, sysfs: str, file: Path) -> None:
        main(["capture", "--path.sysfs", sysfs, NOBODY, str(file)])
        manifest = json.loads((unpacked(file) / "capture.json").read_text())
        assert manifest["format"] == 1
        assert manifest["host"] == socket.gethostname()
        assert manifest["redacted"] is False
        assert set(manifest["versions"]) == {
            *("distribution", "exporter", "kernel", "libraries", "machine", "python"),
        }
        assert "prometheus-client" in manifest["versions"]["libraries"]


class TestRedacted:
    def test_no_name_is_left_anywhere(
        self, sysfs: str, procfs: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(facts, "host_names", lambda: ("secret-host.example.com",))
        Path("settings.yaml").write_text(
            "expected:\n- nqn: nqn.2026-01.com.acme:vault\n  count: 1\n"
        )
        file = Path("from-secret-host.tar.xz")
        with running("--path.sysfs", sysfs) as exporter:
            address = exporter.url.removeprefix("http://").rstrip("/")
            flags = ["--path.sysfs", sysfs, "--path.procfs", procfs, "--config.file=settings.yaml"]
            where = f"--web.listen-address={address}"
            assert main(["capture", "--redact", *flags, where, str(file)]) == 0
        with tarfile.open(file) as tar:
            tar.extractall("unpacked", filter="data")
        (bundle,) = Path("unpacked").iterdir()
        assert bundle.name == "from-host-2"
        found = every_byte(bundle)
        assert [name for name in NAMES if name.encode() in found] == []
        assert b"nqn.2014-08.org.example:name-1" in (bundle / "exporter/metrics.prom").read_bytes()


class TestBadInput:
    @pytest.fixture(autouse=True)
    def refused(self, capsys: pytest.CaptureFixture[str], file: Path) -> Iterator[None]:
        """Every one of these is one line, and leaves nothing behind."""
        self.capsys = capsys
        yield
        assert [name for name in os.listdir() if name.startswith(".")] == []

    def said(self, *arguments: str) -> str:
        assert main(["capture", *arguments]) == 2
        out, err = self.capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err.removeprefix("nvmeof-exporter: error: ").rstrip()

    def test_a_file_that_exists(self, file: Path) -> None:
        file.write_text("precious")
        assert self.said(str(file)) == ("'bundle.tar.xz' exists already; nothing is overwritten")
        assert file.read_text() == "precious"

    def test_a_name_of_another_kind(self) -> None:
        assert self.said("bundle.zip") == (
            "'bundle.zip': expected a file name that ends in .tar.xz"
        )

    def test_no_file(self) -> None:
        assert self.said() == "the following arguments are required: FILE.tar.xz"

    def test_a_directory_that_is_not_there(self) -> None:
        assert self.said("gone/bundle.tar.xz") == (
            "'gone/bundle.tar.xz': there is no directory 'gone'"
        )

    def test_no_tree(self, file: Path) -> None:
        assert self.said("--path.sysfs=gone", str(file)) == "--path.sysfs: 'gone' is no directory"
        assert not file.exists()


class TestNoProcess:
    def test_one_line_and_no_file(
        self,
        sysfs: str,
        file: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def denied(*_: object, **__: object) -> None:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

        monkeypatch.setattr(subprocess, "Popen", denied)
        assert main(["capture", "--path.sysfs", sysfs, NOBODY, str(file)]) == 1
        said = capsys.readouterr().err
        assert said.startswith("nvmeof-exporter: error: the process that reads cannot be started: ")
        assert said.endswith(": Resource temporarily unavailable\n")
        assert not file.exists()


class TestFullDisk:
    def test_one_line_and_nothing_left(
        self,
        sysfs: str,
        file: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        assert main(["capture", "--path.sysfs", sysfs, NOBODY, str(file)]) == 1
        assert capsys.readouterr().err == (
            "nvmeof-exporter: error: bundle.tar.xz: No space left on device; nothing is left\n"
        )
        assert os.listdir() == ["node"]


class TestInterrupted:
    def test_one_line_and_nothing_left(
        self,
        sysfs: str,
        file: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def interrupted(_: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupted)
        assert main(["capture", "--path.sysfs", sysfs, NOBODY, str(file)]) == 130
        assert capsys.readouterr().err == ("nvmeof-exporter: error: interrupted; nothing is left\n")
        assert os.listdir() == ["node"]


class TestLookingAtOne:
    @pytest.fixture
    def bundle(self, file: Path) -> Path:
        with closing(Tree(demo_node(), Path("demo").absolute())) as tree:
            main(["capture", "--path.sysfs", tree.sysfs, NOBODY, str(file)])
        return unpacked(file)

    def test_show_says_when_it_was_taken(
        self, bundle: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        taken = json.loads((bundle / "capture.json").read_text())["taken"]
        capsys.readouterr()
        assert main(["show", "--path.sysfs", str(bundle / "sys")]) == 0
        told = f"read from {bundle}/sys, a capture of {taken}, without history"
        assert told in capsys.readouterr().out

    def serve(self, sysfs: Path) -> str:
        done = run_to_the_end("serve", "--path.sysfs", str(sysfs), NOBODY)
        assert done.returncode == 2
        return done.stderr.splitlines()[-1].removeprefix("nvmeof-exporter: error: ")

    def test_serve_takes_one_that_is_whole(self, bundle: Path) -> None:
        with running("--path.sysfs", str(bundle / "sys")) as exporter:
            assert "nvmeof_path_state{" in exporter.get("/metrics")
            assert "stands still" in exporter.line("the tree is a capture")

    def test_half_of_one_is_refused(self, bundle: Path) -> None:
        next((bundle / "sys").rglob("subsysnqn")).unlink()
        said = self.serve(bundle / "sys")
        assert said.startswith(f"--path.sysfs: '{bundle}/sys' is not the tree that was captured: ")
        assert said.endswith(
            " entries are there; unpack it again, or remove capture.json to look at it all the same"
        )

    def test_a_changed_one_is_refused(self, bundle: Path) -> None:
        next((bundle / "sys").rglob("subsysnqn")).write_text("nqn.other\n")
        assert "something in it was changed; unpack it again" in self.serve(bundle / "sys")

    def test_a_broken_manifest_is_refused(self, bundle: Path) -> None:
        (bundle / "capture.json").write_text("{")
        assert self.serve(bundle / "sys").startswith(
            f"{bundle}/capture.json: is no manifest of a capture: "
        )

    def test_one_of_a_later_format_is_refused(self, bundle: Path) -> None:
        manifest = json.loads((bundle / "capture.json").read_text())
        (bundle / "capture.json").write_text(json.dumps({**manifest, "format": 2}))
        assert self.serve(bundle / "sys") == (
            f"{bundle}/capture.json: found a capture of format 2, expected format 1"
        )

    def test_one_that_is_still_packed_is_refused(self, bundle: Path, file: Path) -> None:
        assert self.serve(file) == (
            "--path.sysfs: 'bundle.tar.xz' is packed; unpack it and name its directory sys"
        )


def test_a_tree_that_this_user_may_not_enter_is_named(sysfs: str) -> None:
    closed = Path(sysfs).parent
    closed.chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        with pytest.raises(ConfigError) as refused:
            refuse_broken(sysfs)
    finally:
        os.seteuid(user)
        closed.chmod(0o700)
    assert str(refused.value) == f"--path.sysfs: {sysfs!r}: Permission denied"


def test_what_cannot_be_read_is_not_blamed_on_standard_output() -> None:
    with pytest.raises(ConfigError) as refused, writing(io.StringIO()):
        os.listdir("nowhere")
    assert str(refused.value) == "'nowhere': No such file or directory"
