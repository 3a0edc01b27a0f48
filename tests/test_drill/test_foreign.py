"""Checkpoints of frameworks: complete or torn, without loading the framework."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import tempfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.drill.findings import Condition, Finding
from nvmeof_exporter.drill.pickled import PickleError, objects_in
from nvmeof_exporter.drill.verify import judge
from tests.test_drill.foreign import archive, dcp, safetensors_file

if TYPE_CHECKING:
    from pathlib import Path

F32 = ("F32", (2, 2), b"\x01" * 16)
U8 = ("U8", (5,), b"\x02" * 5)


def judged(path: Path) -> Finding:
    finding = judge(str(path))
    assert finding is not None
    return finding


def said(path: Path) -> tuple[Condition, str]:
    finding = judged(path)
    return finding.condition, finding.reason


@pytest.fixture
def distributed(tmp_path: Path) -> Path:
    """Two ranks' files, of two tensors each."""
    path = tmp_path / "step-500"
    dcp(
        path,
        {
            "__0_0.distcp": [archive(b"weights" * 9, b"more"), archive(b"bias" * 7)],
            "__1_0.distcp": [archive(b"moments" * 9), archive(b"lr" * 7)],
        },
    )
    return path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Two files of tensors and their index."""
    path = tmp_path / "model"
    path.mkdir()
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    (path / first).write_bytes(safetensors_file(a=F32, b=U8))
    (path / second).write_bytes(safetensors_file(c=F32))
    index = {"metadata": {"total_size": 37}, "weight_map": {"a": first, "b": first, "c": second}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


class TestADistributedCheckpoint:
    def test_is_whole_when_every_piece_has_its_checksum(self, distributed: Path) -> None:
        finding = judged(distributed)
        assert (finding.name, finding.format) == ("step-500", "dcp")
        assert finding.condition is Condition.WHOLE
        assert finding.bytes == sum(
            file.stat().st_size for file in distributed.iterdir() if file.suffix == ".distcp"
        )

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_is_read_in_every_protocol_of_pickle(self, tmp_path: Path, protocol: int) -> None:
        dcp(tmp_path / "c", {"__0_0.distcp": [archive(b"weights")]}, protocol)
        assert said(tmp_path / "c") == (Condition.WHOLE, "")

    def test_is_torn_without_its_metadata(self, distributed: Path) -> None:
        (distributed / ".metadata").rename(distributed / ".metadata.tmp")
        assert said(distributed) == (Condition.TORN, ".metadata was never written")

    def test_is_broken_with_a_file_missing(self, distributed: Path) -> None:
        (distributed / "__1_0.distcp").unlink()
        assert said(distributed) == (Condition.BROKEN, "__1_0.distcp is missing")

    @pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "__1_0.distcp"])
    def test_is_broken_when_cut_off_anywhere(self, distributed: Path, name: str) -> None:
        file = distributed / name
        for size in reversed(range(file.stat().st_size)):
            os.truncate(file, size)
            assert judged(distributed).condition is Condition.BROKEN, size

    @pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "__1_0.distcp"])
    def test_is_broken_when_a_file_reads_as_zeros(self, distributed: Path, name: str) -> None:
        file = distributed / name
        file.write_bytes(bytes(file.stat().st_size))
        assert judged(distributed).condition is Condition.BROKEN

    def test_is_broken_when_a_byte_of_a_tensor_changed(self, distributed: Path) -> None:
        file = distributed / "__0_0.distcp"
        file.write_bytes(file.read_bytes().replace(b"biasbias", b"biasbiaS", 1))
        condition, reason = said(distributed)
        assert condition is Condition.BROKEN
        assert reason.endswith("archive/data/0 has another checksum")

    def test_of_bytes_without_checksums_is_only_complete(self, tmp_path: Path) -> None:
        path = tmp_path / "c"
        dcp(path, {"__0_0.distcp": [archive(b"w", checksums=False), b"anything", bytes(9)]})
        finding = judged(path)
        assert finding.condition is Condition.COMPLETE
        assert finding.remarks == (
            "3 of 3 pieces have no checksums: that they are there was judged, not what is in them",
        )

    def test_of_another_form_is_not_judged(self, tmp_path: Path) -> None:
        (tmp_path / "c").mkdir()
        (tmp_path / "c/.metadata").write_bytes(pickle.dumps({"tensors": []}))
        assert said(tmp_path / "c") == (
            Condition.UNKNOWN,
            ".metadata names no file: it is of a form that is not understood",
        )

    @pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "", ".."])
    def test_does_not_lead_out_of_its_directory(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "c"
        dcp(path, {"inside": [b"x"]})
        raw = (
            (path / ".metadata")
            .read_bytes()
            .replace(b"\x8c\x06inside", b"\x8c" + bytes([len(name)]) + name.encode())
        )
        # The pickle is framed: its length is told once.
        (path / ".metadata").write_bytes(raw[:2] + raw[11:])
        assert said(path) == (
            Condition.BROKEN,
            ".metadata: _StorageInfo names a file elsewhere",
        )


class Trap:
    """Unpickled, it would run a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


class TestAPickle:
    def test_is_followed_and_nothing_in_it_runs(self, tmp_path: Path) -> None:
        (made,) = objects_in(pickle.dumps(Trap(f"touch {tmp_path}/ran")))
        assert (made.name, made.arguments) == ("posix system", (f"touch {tmp_path}/ran",))
        assert list(tmp_path.iterdir()) == []

    @given(st.binary(max_size=200))
    def test_of_any_bytes_is_followed_or_refused(self, raw: bytes) -> None:
        with contextlib.suppress(PickleError):
            assert isinstance(objects_in(raw), list)

    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: (
                st.lists(inner)
                | st.tuples(inner, inner)
                | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner)
                | st.frozensets(st.integers())
            ),
        ),
        protocol=st.integers(0, pickle.HIGHEST_PROTOCOL),
        data=st.data(),
    )
    def test_whole_is_followed_and_cut_off_is_refused(
        self, value: object, protocol: int, data: st.DataObject
    ) -> None:
        raw = pickle.dumps(value, protocol)
        objects_in(raw)
        with pytest.raises(PickleError):
            objects_in(raw[: data.draw(st.integers(0, len(raw) - 1))])


class TestSafetensors:
    def test_with_an_index_are_complete(self, sharded: Path) -> None:
        finding = judged(sharded)
        assert (finding.condition, finding.reason) == (Condition.COMPLETE, "")
        assert finding.remarks == (
            "safetensors have no checksums: sizes and headers were judged, not the tensors' bytes",
        )

    def test_alone_need_no_index(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(safetensors_file(a=F32))
        assert judged(tmp_path).condition is Condition.COMPLETE

    def test_of_several_files_without_their_index_are_torn(self, sharded: Path) -> None:
        (sharded / "model.safetensors.index.json").unlink()
        assert said(sharded) == (
            Condition.TORN,
            "model-00001-of-00002.safetensors is one of several, and there is no index",
        )

    def test_with_a_file_missing_are_broken(self, sharded: Path) -> None:
        (sharded / "model-00002-of-00002.safetensors").unlink()
        assert said(sharded) == (
            Condition.BROKEN,
            "model-00002-of-00002.safetensors is missing",
        )

    def test_with_a_tensor_missing_are_broken(self, sharded: Path) -> None:
        file = sharded / "model-00001-of-00002.safetensors"
        file.write_bytes(safetensors_file(a=F32))
        assert said(sharded) == (
            Condition.BROKEN,
            "model-00001-of-00002.safetensors lacks 1 of its tensors, such as 'b'",
        )

    def test_cut_off_or_grown_anywhere_are_broken(self, sharded: Path) -> None:
        for name in ("model-00001-of-00002.safetensors", "model.safetensors.index.json"):
            file = sharded / name
            whole = file.read_bytes()
            for size in range(len(whole)):
                file.write_bytes(whole[:size])
                assert judged(sharded).condition is Condition.BROKEN, (name, size)
            file.write_bytes(whole + b"\0")
            assert judged(sharded).condition is Condition.BROKEN, name
            file.write_bytes(whole)

    def test_whose_shape_and_size_disagree_are_broken(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(safetensors_file(a=("F32", (3,), bytes(8))))
        assert said(tmp_path) == (
            Condition.BROKEN,
            "model.safetensors: 'a' is not as large as its shape says",
        )

    def test_of_a_type_not_known_here_are_judged_by_their_offsets(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(safetensors_file(a=("F4", (3,), bytes(2))))
        assert judged(tmp_path).condition is Condition.COMPLETE

    @given(st.binary(max_size=100))
    def test_of_any_bytes_are_judged(self, raw: bytes) -> None:
        with tempfile.TemporaryDirectory() as place:
            with open(f"{place}/model.safetensors", "wb") as opened:
                opened.write(raw)
            finding = judge(place)
            assert finding is not None
            assert finding.condition in {Condition.BROKEN, Condition.COMPLETE}
