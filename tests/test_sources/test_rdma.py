from __future__ import annotations

import errno
import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from nvmeof_exporter.hardware import RdmaPort
from nvmeof_exporter.sources.rdma import RdmaSource
from tests.fixtures.node_files import FaultyReader
from tests.fixtures.rdma_files import RdmaFiles, write

TREES = Path(__file__).parents[1] / "fixtures/trees"

#: Reads of a device after which every file without a value has been tried again.
READS_UNTIL_RETRIED = 60

NO_PMA = "N/A (no PMA)"


class Opening(FaultyReader):
    """Notes what is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, path: str) -> int:
        self.opened.append(path)
        return super().open(path)


class Clock:
    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def reader() -> Opening:
    return Opening()


@pytest.fixture
def files(tmp_path: Path) -> RdmaFiles:
    return RdmaFiles(tmp_path / "sys")


@pytest.fixture
def source(reader: Opening, files: RdmaFiles) -> RdmaSource:
    return RdmaSource(reader, files.sysfs)


def only_port(source: RdmaSource, device: str) -> RdmaPort:
    (port,) = source.read(device)
    return port


def statistics(source: RdmaSource, device: str) -> dict[str, int]:
    return dict(only_port(source, device).statistics)


class TestAPort:
    def test_of_400_gigabits_is_told_whole_and_saturated_counters_as_they_are(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        device = files.device("mlx5_0", {"fw_ver": "28.41.1000", "hca_type": "MT4129"})
        files.port(
            device,
            1,
            {
                "rate": "400 Gb/sec (4X NDR)",
                "link_layer": "InfiniBand",
                "counters/port_rcv_data": 205128687774249,
                "counters/port_xmit_data": 205143497464492,
                "counters/port_rcv_packets": 240037171331,
                "counters/port_xmit_packets": 242071897216,
                "counters/link_downed": 255,
                "counters/port_xmit_discards": 65535,
                "counters/port_xmit_wait": 4294967295,
                "counters/excessive_buffer_overrun_errors": 15,
                "hw_counters/lifespan": 10,
                "hw_counters/out_of_sequence": 12,
            },
        )
        assert source.devices() == ["mlx5_0"]
        assert source.read("mlx5_0") == (
            RdmaPort(
                "mlx5_0",
                "1",
                link_layer="InfiniBand",
                firmware="28.41.1000",
                hca="MT4129",
                state="active",
                physical_state="linkup",
                rate=50e9,
                received_bytes=820514751096996,
                transmitted_bytes=820573989857968,
                received_packets=240037171331,
                transmitted_packets=242071897216,
                statistics=(
                    ("excessive_buffer_overrun_errors", 15),
                    ("link_downed", 255),
                    ("out_of_sequence", 12),
                    ("port_xmit_discards", 65535),
                    ("port_xmit_wait", 4294967295),
                ),
            ),
        )
        assert (reader.errors, reader.told) == (0, [])

    def test_that_is_down_and_disabled_says_so(self, files: RdmaFiles, source: RdmaSource) -> None:
        device = files.device("mlx5_2")
        down = {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "40 Gb/sec (4X QDR)"}
        files.port(device, 1, {**down, "gid_attrs/ndevs/0": "ens6np0"})
        assert source.read("mlx5_2") == (
            RdmaPort(
                "mlx5_2",
                "1",
                netdevs=("ens6np0",),
                link_layer="Ethernet",
                state="down",
                physical_state="disabled",
                rate=5e9,
            ),
        )

    def test_with_an_empty_cage_has_rate_0(self, files: RdmaFiles, source: RdmaSource) -> None:
        files.port(files.device("mlx5_1"), 1, {"rate": "0 GB/sec", "phys_state": "2: Polling"})
        port = only_port(source, "mlx5_1")
        assert (port.rate, port.physical_state) == (0.0, "polling")

    def test_is_read_anew_each_time(self, files: RdmaFiles, source: RdmaSource) -> None:
        port = files.port(files.device("mlx5_0"), 1, {"counters/link_downed": 0})
        assert statistics(source, "mlx5_0") == {"link_downed": 0}
        write(port, {"state": "1: DOWN", "phys_state": "2: Polling", "counters/link_downed": 1})
        told = only_port(source, "mlx5_0")
        assert (told.state, told.physical_state) == ("down", "polling")
        assert told.statistics == (("link_downed", 1),)

    def test_comes_in_the_order_of_its_number(self, files: RdmaFiles, source: RdmaSource) -> None:
        device = files.device("mlx4_0")
        for number in (10, 2, 1):
            files.port(device, number)
        assert [port.port for port in source.read("mlx4_0")] == ["1", "2", "10"]

    def test_of_a_board_without_a_type_is_told_by_the_board(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        files.port(files.device("hfi1_0", {"board_id": "100Gb 1-port"}), 1)
        assert only_port(source, "hfi1_0").hca == "100Gb 1-port"

    def test_whose_files_are_all_missing_is_still_a_port(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        (files.device("mlx5_0") / "ports/1").mkdir(parents=True)
        assert source.read("mlx5_0") == (RdmaPort("mlx5_0", "1"),)
        assert reader.errors == 0

    def test_keeps_its_files_open(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        port = files.port(files.device("mlx5_0"), 1, {"counters/link_downed": 0})
        source.read("mlx5_0")
        reader.opened.clear()
        write(port, {"counters/link_downed": 3})
        assert statistics(source, "mlx5_0") == {"link_downed": 3}
        assert reader.opened == []


class TestDevices:
    def test_of_a_machine_without_rdma_are_none(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        assert source.devices() == []
        assert source.read("mlx5_0") == ()
        assert reader.errors == 0

    def test_may_have_no_ports(self, files: RdmaFiles, source: RdmaSource) -> None:
        files.device("mlx5_0")
        assert (source.devices(), source.read("mlx5_0")) == (["mlx5_0"], ())

    def test_leave_out_a_dangling_link(self, files: RdmaFiles, source: RdmaSource) -> None:
        files.port(files.device("mlx4_0"), 1)
        (files.root / "class/infiniband/scif0").symlink_to("../../devices/virtual/scif0")
        assert source.devices() == ["mlx4_0"]
        assert source.read("scif0") == ()

    def test_are_chosen_by_their_whole_name(self, files: RdmaFiles, reader: Opening) -> None:
        for number, name in enumerate(("mlx5_0", "mlx5_1", "mlx5_10", "rxe0")):
            files.device(name, pci=f"0000:18:00.{number}")
        include, exclude = re.compile(r"mlx5_\d+"), re.compile(r"mlx5_1")
        assert RdmaSource(reader, files.sysfs, include, exclude).devices() == ["mlx5_0", "mlx5_10"]
        assert RdmaSource(reader, files.sysfs, include).devices() == ["mlx5_0", "mlx5_1", "mlx5_10"]
        assert RdmaSource(reader, files.sysfs, exclude=include).devices() == ["rxe0"]

    def test_that_go_give_back_their_files(self, files: RdmaFiles, reader: Opening) -> None:
        source = RdmaSource(reader, files.sysfs)
        device = files.device("mlx5_0")
        files.port(device, 1, {"counters/link_downed": 0})
        source.read("mlx5_0")
        assert reader.kept > 0
        (files.root / "class/infiniband/mlx5_0").unlink()
        shutil.rmtree(device)
        assert source.devices() == []
        assert (reader.kept, source.read("mlx5_0")) == (0, ())

    def test_that_come_back_under_their_name_are_read_anew(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        device = files.device("mlx5_0", {"fw_ver": "1"})
        files.port(device, 1, {"counters/link_downed": 7})
        source.read("mlx5_0")
        device.rename(device.with_name("before"))
        (files.root / "class/infiniband/mlx5_0").unlink()
        files.port(files.device("mlx5_0", {"fw_ver": "2"}, pci="0000:19:00.0"), 1)
        port = only_port(source, "mlx5_0")
        assert (port.firmware, port.statistics) == ("2", ())

    def test_that_answer_too_slowly_are_given_up(self, files: RdmaFiles, reader: Opening) -> None:
        counters = {f"counters/c{number}": number for number in range(9)}
        files.port(files.device("mlx5_0"), 1, counters)
        clock = Clock(step=4.0)
        source = RdmaSource(reader, files.sysfs, clock=clock)
        with pytest.raises(TimeoutError, match=r"mlx5_0: no end after 10 s$"):
            source.read("mlx5_0")
        assert [os.path.basename(path) for path in reader.reads if "counters" in path] == [
            "c0",
            "c1",
        ]
        clock.step = 0.0
        assert len(statistics(source, "mlx5_0")) == 9


class TestWhatCannotBeRead:
    def test_no_pma_makes_no_series_and_is_told_once_for_the_port(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        names = ("symbol_error", "link_downed", "port_rcv_data", "port_xmit_data")
        port = files.port(files.device("i40iw0"), 1, {f"counters/{n}": NO_PMA for n in names})
        for _ in range(3 * READS_UNTIL_RETRIED):
            told = only_port(source, "i40iw0")
            assert (told.state, told.statistics) == ("active", ())
            assert (told.received_bytes, told.transmitted_bytes) == (None, None)
        counters = os.path.realpath(port / "counters")
        assert (reader.errors, reader.told) == (len(names), [(counters, NO_PMA)])

    @pytest.mark.parametrize(
        "number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO, errno.ENOENT, errno.EACCES]
    )
    def test_a_failing_counter_costs_itself_and_is_tried_ever_more_seldom(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening, number: int
    ) -> None:
        port = files.port(
            files.device("mlx5_0"), 1, {"counters/VL15_dropped": 0, "counters/port_rcv_data": 77}
        )
        path = os.path.realpath(port / "counters/VL15_dropped")
        reader.answers[path] = number
        tried = []
        for count in range(200):
            assert only_port(source, "mlx5_0").received_bytes == 308
            if path in reader.reads:
                tried.append(count)
                reader.reads.clear()
        assert tried == [0, 2, 6, 14, 30, 62, 122, 182]
        assert reader.errors == len(tried)
        assert len(reader.told) <= 1

    def test_a_counter_that_comes_back_is_told_again(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        port = files.port(files.device("mlx5_0"), 1, {"counters/link_downed": 4})
        path = os.path.realpath(port / "counters/link_downed")
        reader.answers[path] = errno.EIO
        assert statistics(source, "mlx5_0") == {}
        del reader.answers[path]
        assert statistics(source, "mlx5_0") == {}
        assert statistics(source, "mlx5_0") == {"link_downed": 4}
        assert statistics(source, "mlx5_0") == {"link_downed": 4}

    def test_a_state_that_cannot_be_read_is_not_told(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        port = files.port(files.device("mlx5_0"), 1)
        for name in ("state", "phys_state", "rate", "link_layer"):
            reader.answers[os.path.realpath(port / name)] = errno.EIO
        assert source.read("mlx5_0") == (RdmaPort("mlx5_0", "1"),)

    def test_what_is_no_number_is_counted_and_left_out(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        files.port(files.device("mlx5_0"), 1, {"counters/a": "-1", "counters/b": "x"})
        assert statistics(source, "mlx5_0") == {}
        assert reader.errors == 2

    def test_files_that_must_not_be_read_are_not(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        files.port(files.device("mlx5_0"), 1, {"counters/nuse": 1, "counters/a": 2})
        assert statistics(source, "mlx5_0") == {"a": 2}
        assert not any(path.endswith("nuse") for path in reader.opened)


class TestStatistics:
    def test_have_the_kernels_own_names_whatever_those_are(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        files.port(
            files.device("hfi1_0"),
            1,
            {"hw_counters/RcvOverflow,32": 3, 'hw_counters/odd " \\name': 4},
        )
        assert only_port(source, "hfi1_0").statistics == (
            ("RcvOverflow,32", 3),
            ('odd " \\name', 4),
        )

    def test_of_names_that_are_no_text_are_told_once_each(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        port = files.port(files.device("mlx5_0"), 1, {"hw_counters/good": 1})
        for name in (b"caf\xe9", b"caf\xe8"):
            Path(os.fsdecode(os.fsencode(port / "hw_counters") + b"/" + name)).write_text("5\n")
        assert only_port(source, "mlx5_0").statistics == (("caf\ufffd", 5), ("good", 1))

    def test_are_no_settings_or_levels(self, files: RdmaFiles, source: RdmaSource) -> None:
        names = ("lifespan", "active_qps", "watermark_cqs", "resize_cq_cnt")
        files.port(files.device("bnxt_re0"), 1, {f"hw_counters/{n}": 9 for n in names})
        assert statistics(source, "bnxt_re0") == {"resize_cq_cnt": 9}

    def test_of_one_name_are_told_once_by_the_one_that_does_not_saturate(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        files.port(
            files.device("rxe0"), 1, {"counters/link_downed": 255, "hw_counters/link_downed": 300}
        )
        assert only_port(source, "rxe0").statistics == (("link_downed", 300),)

    @pytest.mark.parametrize("directory", ["counters", "hw_counters"])
    def test_come_from_either_directory_alone(
        self, files: RdmaFiles, source: RdmaSource, directory: str
    ) -> None:
        files.port(files.device("mlx5_0"), 1, {f"{directory}/a": 1})
        assert statistics(source, "mlx5_0") == {"a": 1}

    def test_of_a_device_with_one_port_are_that_ports(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        device = files.device("cxgb4_0", {"hw_counters/ip4InSegs": 5, "hw_counters/lifespan": 10})
        files.port(device, 1, {"counters/link_downed": 1})
        assert only_port(source, "cxgb4_0").statistics == (("ip4InSegs", 5), ("link_downed", 1))

    def test_of_a_device_with_several_ports_are_those_of_no_port(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        device = files.device("cxgb4_0", {"hw_counters/ip4InSegs": 5, "fw_ver": "1.27"})
        files.port(device, 1)
        files.port(device, 2)
        first, second, whole = source.read("cxgb4_0")
        assert (first.port, first.statistics, second.port, second.statistics) == ("1", (), "2", ())
        assert whole == RdmaPort("cxgb4_0", "", firmware="1.27", statistics=(("ip4InSegs", 5),))

    def test_of_a_device_are_told_too_where_only_some_ports_have_their_own(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        device = files.device("mlx5_0", {"hw_counters/out_of_sequence": 5})
        files.port(device, 1)
        files.port(device, 2, {"hw_counters/out_of_sequence": 6})
        assert [(port.port, port.statistics) for port in source.read("mlx5_0")] == [
            ("1", ()),
            ("2", (("out_of_sequence", 6),)),
            ("", (("out_of_sequence", 5),)),
        ]

    def test_of_a_device_without_ports_are_those_of_no_port(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        files.device("mlx5_0", {"hw_counters/out_of_sequence": 5})
        assert source.read("mlx5_0") == (
            RdmaPort("mlx5_0", "", statistics=(("out_of_sequence", 5),)),
        )

    def test_of_a_device_are_left_out_where_ports_have_their_own(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        device = files.device("mana_0", {"hw_counters/sent_cnps": 5})
        files.port(device, 1, {"hw_counters/received_cnps": 6})
        assert statistics(source, "mana_0") == {"received_cnps": 6}


class TestTraffic:
    @pytest.mark.parametrize(
        ("device", "files_of_port", "expected"),
        [
            pytest.param(
                "bnxt_re0",
                {"rx_bytes": 1000, "tx_bytes": 2000, "rx_pkts": 3, "tx_pkts": 4},
                (1000, 2000, 3, 4),
                id="bnxt_re and efa",
            ),
            pytest.param(
                "mana_0",
                {"rx_bytes": 1000, "tx_bytes": 2000, "rx_packets": 3, "tx_packets": 4},
                (1000, 2000, 3, 4),
                id="mana",
            ),
            pytest.param(
                "rxe0",
                {"rcvd_bytes": 1000, "sent_bytes": 2000, "rcvd_pkts": 3, "sent_pkts": 4},
                (1000, 2000, 3, 4),
                id="rxe",
            ),
            pytest.param(
                "rxe0", {"rcvd_pkts": 3, "sent_pkts": 4}, (None, None, 3, 4), id="rxe of old"
            ),
            pytest.param(
                "erdma_0",
                {
                    "rx_bytes_cnt": 1000,
                    "tx_bytes_cnt": 2000,
                    "rx_packets_cnt": 3,
                    "tx_packets_cnt": 4,
                },
                (1000, 2000, 3, 4),
                id="erdma",
            ),
            pytest.param("hns_0", {"rx_pkt": 3, "tx_pkt": 4}, (None, None, 3, 4), id="hns"),
            pytest.param(
                "rocep0s1",
                {
                    "rx_rdma_ucast_bytes": 1000,
                    "tx_rdma_ucast_bytes": 2000,
                    "rx_rdma_ucast_pkts": 3,
                    "tx_rdma_ucast_pkts": 4,
                },
                (1000, 2000, 3, 4),
                id="ionic",
            ),
            pytest.param("siw0", {}, (None, None, None, None), id="siw"),
        ],
    )
    def test_is_counted_in_the_files_of_the_driver_and_told_once(
        self,
        files: RdmaFiles,
        source: RdmaSource,
        device: str,
        files_of_port: dict[str, int],
        expected: tuple[int | None, ...],
    ) -> None:
        files.port(
            files.device(device), 1, {f"hw_counters/{n}": v for n, v in files_of_port.items()}
        )
        port = only_port(source, device)
        assert traffic(port) == expected
        assert port.statistics == ()

    def test_by_ip_version_is_summed_and_its_parts_are_told_too(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        parts = {
            "ip4InOctets": 1000,
            "ip6InOctets": 500,
            "ip4OutOctets": 2000,
            "ip6OutOctets": 1,
            "ip4InPkts": 3,
            "ip6InPkts": 2,
            "ip4OutPkts": 4,
            "ip6OutPkts": 6,
        }
        files.port(files.device("irdma0"), 1, {f"hw_counters/{n}": v for n, v in parts.items()})
        port = only_port(source, "irdma0")
        assert traffic(port) == (1500, 2001, 5, 10)
        assert dict(port.statistics) == parts

    def test_of_a_pma_is_in_words_of_4_octets(self, files: RdmaFiles, source: RdmaSource) -> None:
        files.port(
            files.device("rxe0"),
            1,
            {
                "counters/port_rcv_data": 22439,
                "counters/port_xmit_data": 22440,
                "hw_counters/rcvd_bytes": 89757,
                "hw_counters/sent_bytes": 89760,
            },
        )
        port = only_port(source, "rxe0")
        assert (port.received_bytes, port.transmitted_bytes) == (89756, 89760)
        assert dict(port.statistics) == {"rcvd_bytes": 89757, "sent_bytes": 89760}

    @pytest.mark.parametrize(("device", "driver"), [("hfi1_0", ""), ("opap24s0", "hfi1")])
    def test_of_omni_path_is_in_flits_of_8_octets(
        self, files: RdmaFiles, source: RdmaSource, device: str, driver: str
    ) -> None:
        data = {"counters/port_rcv_data": 10, "counters/port_xmit_data": 20}
        files.port(files.device(device, driver=driver), 1, data)
        port = only_port(source, device)
        assert (port.received_bytes, port.transmitted_bytes) == (80, 160)

    def test_that_a_pma_does_not_count_is_taken_from_elsewhere(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        files.port(
            files.device("bnxt_re0"),
            1,
            {"counters/port_rcv_data": NO_PMA, "hw_counters/rx_bytes": 4000},
        )
        assert only_port(source, "bnxt_re0").received_bytes == 4000

    def test_never_jumps_from_one_file_to_another(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        port = files.port(
            files.device("bnxt_re0"),
            1,
            {"counters/port_rcv_data": 10, "hw_counters/rx_bytes": 4000},
        )
        assert only_port(source, "bnxt_re0").received_bytes == 40
        reader.answers[os.path.realpath(port / "counters/port_rcv_data")] = errno.EIO
        assert only_port(source, "bnxt_re0").received_bytes is None


def traffic(port: RdmaPort) -> tuple[int | None, ...]:
    return (
        port.received_bytes,
        port.transmitted_bytes,
        port.received_packets,
        port.transmitted_packets,
    )


class TestInterfaces:
    def test_are_those_of_the_gids_once_each_in_order(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        names = ("ens5", "ens5", "ens5.7", "ens5", "bond0")
        ndevs = {f"gid_attrs/ndevs/{index}": name for index, name in enumerate(names)}
        files.port(files.device("mlx5_0"), 1, ndevs)
        assert only_port(source, "mlx5_0").netdevs == ("ens5", "ens5.7", "bond0")

    def test_are_looked_for_seldom(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        ndevs = {f"gid_attrs/ndevs/{index}": "h0" for index in range(1024)}
        port = files.port(files.device("rxe0"), 1, ndevs)
        unset = os.path.realpath(port / "gid_attrs/ndevs")
        reader.answers = {f"{unset}/{index}": errno.EINVAL for index in range(1, 1024)}
        assert only_port(source, "rxe0").netdevs == ("h0",)
        reader.reads.clear()
        for _ in range(120):
            assert only_port(source, "rxe0").netdevs == ("h0",)
        assert len([path for path in reader.reads if path.startswith(unset)]) < 120
        assert (reader.errors, reader.told) == (0, [])

    def test_that_come_later_are_found(
        self, files: RdmaFiles, source: RdmaSource, reader: Opening
    ) -> None:
        ndevs = {"gid_attrs/ndevs/0": "ens5", "gid_attrs/ndevs/1": "ens5.7"}
        port = files.port(files.device("mlx5_0"), 1, ndevs)
        unset = os.path.realpath(port / "gid_attrs/ndevs/1")
        reader.answers[unset] = errno.EINVAL
        assert only_port(source, "mlx5_0").netdevs == ("ens5",)
        del reader.answers[unset]
        found = [only_port(source, "mlx5_0").netdevs for _ in range(12)]
        assert found == [("ens5",)] * 11 + [("ens5", "ens5.7")]

    def test_of_soft_roce_without_an_address_is_its_parent(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        files.port(files.device("rxe0", {"parent": "h0"}), 1)
        assert only_port(source, "rxe0").netdevs == ("h0",)

    def test_of_infiniband_are_those_of_the_port_of_the_card(
        self, files: RdmaFiles, source: RdmaSource
    ) -> None:
        device = files.device("mlx4_0")
        files.port(device, 1)
        files.port(device, 2)
        write(device / "device/net", {"ib0/dev_port": 0, "ib1/dev_port": 1, "ib1.8001/dev_port": 1})
        first, second = source.read("mlx4_0")
        assert (first.netdevs, second.netdevs) == (("ib0",), ("ib1", "ib1.8001"))


class TestRealTrees:
    @pytest.mark.parametrize(
        ("kernel", "received", "packets"), [("6.1", None, 413), ("7.3", 116808, 347)]
    )
    def test_soft_roce_whose_link_is_down(
        self,
        tmp_path: Path,
        reader: Opening,
        kernel: str,
        received: int | None,
        packets: int,
    ) -> None:
        with tarfile.open(TREES / kernel / "rdma-link-down.tar.xz") as tar:
            tar.extractall(tmp_path, filter="data")
        source = RdmaSource(reader, str(tmp_path / "sys"))
        assert source.devices() == ["rxe1", "rxe2"]
        port = only_port(source, "rxe1")
        assert (port.netdevs, port.link_layer) == (("r1",), "Ethernet")
        assert (port.state, port.physical_state, port.rate) == ("down", "disabled", 1.25e9)
        assert traffic(port) == (received, received, packets, packets)
        told = dict(port.statistics)
        assert told["link_downed"] == 1
        # The driver's own count of octets, since it has one: the words were of 4 octets.
        assert told.get("rcvd_bytes") == received
        assert only_port(source, "rxe2").state == "active"
        assert reader.errors == 0
