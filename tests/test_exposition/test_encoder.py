"""The encoder against prometheus_client's: whatever is told, the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as ForeignFamily
from prometheus_client.exposition import generate_latest as classic
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.utils import floatToGoString

from nvmeof_exporter.exposition.encoder import Family, encode, label_text, number
from nvmeof_exporter.exposition.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What UTF-8 can tell; the rest is replaced before it is told.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = ("nqn", "path", "cause")


class Collector:
    def __init__(self, *families: ForeignFamily) -> None:
        self._families = families

    def collect(self) -> Iterator[ForeignFamily]:
        yield from self._families


def written(*families: Family | ForeignFamily, as_openmetrics: bool = False) -> str:
    return b"".join(encode(families, openmetrics=as_openmetrics)).decode()


@given(st.integers() | st.floats() | st.booleans())
@example(999_999)
@example(1_000_000)
@example(-1_000_000)
@example(999_999.9999999999)
@example(1234567.891)
@example(10**16)
@example(2**53 + 1)
@example(2**64 - 1)
@example(1e22)
@example(-0.0)
@example(5e-324)
def test_a_number_is_written_as_the_client_library_writes_it(value: float) -> None:
    try:
        expected = floatToGoString(value)  # type: ignore[no-untyped-call]
    except OverflowError:
        with pytest.raises(OverflowError):
            number(value)
    else:
        assert number(value) == expected


@given(
    st.sampled_from(["gauge", "counter"]),
    TEXTS,
    st.lists(st.tuples(st.tuples(TEXTS, TEXTS, TEXTS), st.floats()), min_size=1, max_size=4),
)
def test_a_family_is_written_as_the_client_library_writes_it(
    kind: str, text: str, samples: list[tuple[tuple[str, str, str], float]]
) -> None:
    name = "nvmeof_failovers_total" if kind == "counter" else "nvmeof_failovers"
    lines = [f"{name}{label_text(NAMES, labels)} {number(value)}\n" for labels, value in samples]
    own = Family(Metric(name, kind, text, NAMES), "".join(lines))
    theirs = ForeignFamily("nvmeof_failovers", text, kind)
    for labels, value in samples:
        theirs.add_sample(name, dict(zip(NAMES, labels, strict=True)), value)
    assert written(own) == classic(Collector(theirs)).decode()
    told = openmetrics(Collector(theirs)).decode()  # type: ignore[no-untyped-call]
    assert written(own, as_openmetrics=True) == told


def test_a_librarys_families_are_written_among_the_others() -> None:
    metric = Metric("nvmeof_subsystem_paths", "gauge", "Paths.")
    own = Family(metric, "nvmeof_subsystem_paths 2.0\n")
    theirs = [
        GaugeMetricFamily("process_open_fds", "Descriptors.", value=7),
        CounterMetricFamily("process_cpu_seconds", "CPU time.", value=1.5),
    ]
    assert written(own, *theirs, as_openmetrics=True) == (
        "# HELP nvmeof_subsystem_paths Paths.\n"
        "# TYPE nvmeof_subsystem_paths gauge\n"
        "nvmeof_subsystem_paths 2.0\n"
        "# HELP process_open_fds Descriptors.\n"
        "# TYPE process_open_fds gauge\n"
        "process_open_fds 7.0\n"
        "# HELP process_cpu_seconds CPU time.\n"
        "# TYPE process_cpu_seconds counter\n"
        "process_cpu_seconds_total 1.5\n"
        "# EOF\n"
    )
    assert written(own, *theirs).endswith("process_cpu_seconds_total 1.5\n")


def test_labels_are_in_the_order_of_their_names() -> None:
    assert label_text(("path", "nqn"), ("b", "a")) == '{nqn="a",path="b"}'
    assert label_text((), ()) == ""


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    assert label_text(("netdev",), ("eth\udcff0",)) == '{netdev="eth\ufffd0"}'


@pytest.mark.parametrize("values", [(), ("a",), ("a", "b", "c")])
def test_a_label_too_few_or_too_many_is_a_defect(values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"{len(values)} values"):
        label_text(("nqn", "path"), values)
