from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.model import PathId
from nvmeof_exporter.sources import decode

PORT = st.integers(1, 65535).map(str)
IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.ip_addresses(v=6).map(str)
INTERFACE = st.from_regex(r"[a-z][a-z0-9.-]{0,14}", fullmatch=True)
ADDRESS = IPV4 | IPV6 | st.builds("{}%{}".format, IPV6, INTERFACE)
PATH = st.builds(
    PathId,
    transport=st.sampled_from(["tcp", "rdma"]),
    traddr=ADDRESS,
    trsvcid=PORT | st.just(""),
    host_traddr=ADDRESS | st.just(""),
    host_iface=INTERFACE | st.just(""),
    ordinal=st.integers(1, 5),
)


@pytest.mark.parametrize(
    ("path", "label"),
    [
        (PathId("tcp", "10.0.0.2", "4420"), "tcp:10.0.0.2:4420"),
        (PathId("tcp", "10.0.0.2", "4420", "10.0.0.1"), "tcp:10.0.0.2:4420@10.0.0.1"),
        (PathId("rdma", "10.0.0.2", "4420", "", "h0"), "rdma:10.0.0.2:4420%h0"),
        (PathId("tcp", "10.0.0.2", "4420", "10.0.0.1", "h0"), "tcp:10.0.0.2:4420@10.0.0.1%h0"),
        (PathId("tcp", "fe80::2", "4420", "fe80::1", "h0"), "tcp:[fe80::2]:4420@[fe80::1]%h0"),
        (PathId("tcp", "fe80::2%h0", "4420", "", "h0"), "tcp:[fe80::2%h0]:4420%h0"),
        (PathId("tcp", "[fe80::2]", "4420"), "tcp:[fe80::2]:4420"),
        (PathId("fc", "nn-0x1:pn-0x2", "", "nn-0x3:pn-0x4"), "fc:nn-0x1:pn-0x2@nn-0x3:pn-0x4"),
        (PathId("pcie", "0000:0f:00.0"), "pcie:0000:0f:00.0"),
        (PathId("loop", ""), "loop:"),
        (PathId("loop", "", ordinal=2), "loop:#2"),
        (PathId("tcp", "10.0.0.2", "4420", "", "h0", 3), "tcp:10.0.0.2:4420%h0#3"),
    ],
)
def test_the_label_says_what_was_given_at_connect_time(path: PathId, label: str) -> None:
    assert str(path) == label


@given(PATH, PATH)
def test_different_paths_have_different_labels(one: PathId, other: PathId) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(PATH)
def test_the_kernels_address_leads_back_to_the_path(path: PathId) -> None:
    parts = {
        "traddr": path.traddr,
        "trsvcid": path.trsvcid,
        "host_traddr": path.host_traddr,
        "host_iface": path.host_iface,
        "src_addr": "192.0.2.1",
    }
    raw = ",".join(f"{name}={value}" for name, value in parts.items() if value).encode()
    found = decode.address(raw + b"\n")
    again = PathId(
        path.transport,
        found.traddr,
        found.trsvcid,
        found.host_traddr,
        found.host_iface,
        path.ordinal,
    )
    assert again == path
