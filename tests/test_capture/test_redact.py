from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.capture.addresses import StandInAddresses
from nvmeof_exporter.capture.redact import Redactor

ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))

#: Networks whose addresses mean something else than their neighbours do.
KINDS = [
    ipaddress.ip_network(text)
    for text in (
        *("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
        *("100.64.0.0/10", "224.0.0.0/4", "2000::/3", "fc00::/7", "fe80::/64", "ff00::/8"),
    )
]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def common_bits(one: Address, other: Address) -> int:
    """How many bits at their beginnings are equal."""
    return one.max_prefixlen - (int(one) ^ int(other)).bit_length()


def redacted(text: str, key: bytes = b"key") -> str:
    return Redactor(key).text(text.encode()).decode()


class TestAddresses:
    @given(st.binary(min_size=1, max_size=32), ADDRESSES)
    def test_an_address_stays_one_of_its_kind(self, key: bytes, address: Address) -> None:
        stand_in = StandInAddresses(key).stand_in(address)
        assert stand_in.version == address.version
        assert [stand_in in kind for kind in KINDS] == [address in kind for kind in KINDS]

    @given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(0, 2**32 - 1))
    def test_subnets_of_every_size_are_kept(self, first: int, length: int, noise: int) -> None:
        mask = (1 << (32 - length)) - 1
        one = ipaddress.IPv4Address(first)
        other = ipaddress.IPv4Address((first & ~mask) | (noise & mask))
        addresses = StandInAddresses(b"key")
        stand_ins = addresses.stand_in(one), addresses.stand_in(other)
        assert common_bits(*stand_ins) == common_bits(one, other)

    @given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
    def test_neighbours_on_a_link_of_ipv6_stay_neighbours(
        self, network: int, host: int, other_host: int
    ) -> None:
        one = ipaddress.IPv6Address(network << 64 | host)
        other = ipaddress.IPv6Address(network << 64 | other_host)
        addresses = StandInAddresses(b"key")
        stand_ins = addresses.stand_in(one), addresses.stand_in(other)
        assert common_bits(*stand_ins) == common_bits(one, other)

    @pytest.mark.parametrize("text", ["127.0.0.1", "0.0.0.0", "255.255.255.255", "::", "::1"])
    def test_what_everybody_has_is_kept(self, text: str) -> None:
        address = ipaddress.ip_address(text)
        assert StandInAddresses(b"key").stand_in(address) == address

    def test_link_local_addresses_keep_their_network(self) -> None:
        address = ipaddress.ip_address("fe80::1234:56ff:fe78:9abc")
        stand_in = StandInAddresses(b"key").stand_in(address)
        assert stand_in in ipaddress.ip_network("fe80::/64")
        assert stand_in != address

    def test_ipv4_within_ipv6_becomes_what_ipv4_becomes(self) -> None:
        addresses = StandInAddresses(b"key")
        mapped = addresses.stand_in(ipaddress.ip_address("::ffff:10.1.2.3"))
        assert isinstance(mapped, ipaddress.IPv6Address)
        assert mapped.ipv4_mapped == addresses.stand_in(ipaddress.ip_address("10.1.2.3"))

    def test_another_key_gives_other_addresses(self) -> None:
        address = ipaddress.ip_address("10.1.2.3")
        assert StandInAddresses(b"1").stand_in(address) != StandInAddresses(b"2").stand_in(address)


class TestForms:
    @pytest.mark.parametrize(
        ("text", "form"),
        [
            ("nqn.2026-01.com.acme:array7", r"nqn\.2014-08\.org\.example:name-1"),
            (
                "nqn.2014-08.org.nvmexpress:uuid:4a6f6c6c-7950-6174-6873-0000000000ab",
                r"nqn\.2014-08\.org\.nvmexpress:uuid:00000000-0000-4000-8000-000000000001",
            ),
            ("uuid.4a6f6c6c-7950-6174-6873-0000000000ab", r"uuid\.00000000-.*-000000000001"),
            ("eui.0025385b71b00af1", r"eui\.0200000000000001"),
            ("eui.0025385b71b00af10025385b71b00af1", r"eui\.02000000000000000000000000000001"),
            (
                "nvme.1af4-4c41422d50414952-51454d55-00000001",
                r"nvme\.1af4-53455249414c30303031-51454d55-00000001",  # SERIAL0001
            ),
            (
                "nn-0x200400a098bca3d7:pn-0x200500a098bca3d7",
                r"nn-0x2000000000000001:pn-0x2000000000000002",
            ),
            ("b8:ce:f6:04:28:1a", "02:00:00:00:00:01"),
            (
                "80:00:00:02:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:04:28:1a",
                "02:(00:){18}01",
            ),
            ("b8ce:f603:0004:281a", "0200:0000:0000:0001"),
            ("traddr=10.1.2.3,trsvcid=4420", r"traddr=10(\.\d+){3},trsvcid=4420"),
            ("tcp:[fd00::1:2]:4420%eth0", r"tcp:\[fd[0-9a-f:]+\]:4420%eth0"),
            ("[fe80::1%eth0]", r"\[fe80::[0-9a-f:]+%eth0\]"),
            ("0000:0000:0000:0000:0000:ffff:0a01:0203", "(0000:){5}ffff:0a[0-9a-f]{2}:[0-9a-f]{4}"),
            ("10.1.2.0/24", r"10\.\d+\.\d+\.0/24"),
            ("10.1.2.3/24", r"10(\.\d+){3}/24"),
            ("fd00:1:2::/48", r"fd[0-9a-f:]+::/48"),
            ("connect to 10.1.2.3.", r"connect to 10(\.\d+){3}\."),
        ],
    )
    def test_a_name_is_replaced_by_one_of_its_form(self, text: str, form: str) -> None:
        found = redacted(text)
        assert re.fullmatch(form, found), found
        assert found != text

    @pytest.mark.parametrize(
        "text",
        [
            "nqn.2014-08.org.nvmexpress.discovery",
            "0000:3b:00.0",
            "2026-11-30T12:34:56.789Z",
            "12:34:56",
            "version 6.1.0-13-amd64",
            "firmware 20.31.1014",
            "a.b.c.d 1.2.3.4.5 300.1.2.3",
            "std::string",
            "00000000-0000-0000-0000-000000000000",
            "00:00:00:00:00:00",
            "ff:ff:ff:ff:ff:ff",
            "0x7f",
            "nvme0c1n2",
            'nvmeof_path_state{state="live"} 1.0',
        ],
    )
    def test_what_is_no_name_stays(self, text: str) -> None:
        assert redacted(text) == text

    def test_equal_names_have_equal_stand_ins_and_different_ones_do_not(self) -> None:
        one, again, other = redacted("10.0.0.1 10.0.0.1 10.0.0.2").split()
        assert one == again != other

    def test_a_hosts_nqn_still_fits_its_id(self) -> None:
        uuid = "4a6f6c6c-7950-6174-6873-0000000000ab"
        nqn, identity = redacted(f"nqn.2014-08.org.nvmexpress:uuid:{uuid} {uuid.upper()}").split()
        assert nqn == f"nqn.2014-08.org.nvmexpress:uuid:{identity}"

    @given(st.binary())
    def test_any_bytes_pass(self, raw: bytes) -> None:
        redactor = Redactor(b"key")
        redactor.learn("serial", raw)
        redactor.learn("subsysnqn", raw)
        for name in ("serial", "subsysnqn", "address", "stat"):
            redactor.sysfs(name, raw)
        redactor.text(raw)


class TestLearning:
    def test_a_serial_number_is_replaced_in_texts_too(self) -> None:
        redactor = Redactor(b"key")
        redactor.learn("serial", b"  S4EVNX0R100200   \n")
        assert redactor.sysfs("serial", b"  S4EVNX0R100200   \n") == b"  SERIAL0001   \n"
        assert redactor.text(b'{serial="S4EVNX0R100200"} S4EVNX0R100200!') == (
            b'{serial="SERIAL0001"} SERIAL0001!'
        )

    @pytest.mark.parametrize("serial", ["1", "4096", "live"])
    def test_one_that_could_be_anything_only_in_quotes(self, serial: str) -> None:
        redactor = Redactor(b"key")
        redactor.learn("serial", f"{serial}\n".encode())
        assert redactor.sysfs("queue_count", f"{serial}\n".encode()) == f"{serial}\n".encode()
        text = f'info{{serial="{serial}"}} {serial}'
        assert redactor.text(text.encode()).decode() == f'info{{serial="SERIAL0001"}} {serial}'

    def test_an_nqn_that_keeps_to_no_form_is_learnt(self) -> None:
        raw = b'nqn.2014.08.org.nvmexpress:80868086S1 "x"   Model\\1\n'
        redactor = Redactor(b"key")
        redactor.learn("subsysnqn", raw)
        assert redactor.sysfs("subsysnqn", raw) == b"nqn.2014-08.org.example:name-1\n"
        label = rb'nqn="nqn.2014.08.org.nvmexpress:80868086S1 \"x\"   Model\\1"'
        assert redactor.text(label) == b'nqn="nqn.2014-08.org.example:name-1"'

    def test_what_the_kernel_prints_for_no_nqn_stays(self) -> None:
        redactor = Redactor(b"key")
        redactor.learn("subsysnqn", b"(efault)\n")
        assert redactor.sysfs("subsysnqn", b"(efault)\n") == b"(efault)\n"

    def test_a_version_that_looks_like_an_address_stays(self) -> None:
        redactor = Redactor(b"key")
        redactor.learn("fw_ver", b"230.0.157.0\n")
        assert redactor.sysfs("fw_ver", b"230.0.157.0\n") == b"230.0.157.0\n"
        assert redactor.text(b'firmware="230.0.157.0"') == b'firmware="230.0.157.0"'

    def test_host_names_are_replaced_whole_and_outside_of_sysfs_only(self) -> None:
        redactor = Redactor(b"key")
        redactor.learn_hosts(["live.example.com"])
        text = b"live.example.com live delivery alive live-1"
        assert redactor.text(text) == b"host-1 host-2 delivery alive host-2-1"
        assert redactor.sysfs("state", b"live\n") == b"live\n"

    def test_one_that_is_an_address_is_replaced_as_one(self) -> None:
        redactor = Redactor(b"key")
        redactor.learn_hosts(["b8:ce:f6:04:28:1a"])
        assert redactor.text(b"b8:ce:f6:04:28:1a") == b"02:00:00:00:00:01"
