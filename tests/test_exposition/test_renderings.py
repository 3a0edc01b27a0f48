"""What many scrapes of one state share."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.exposition.encoder import Family
from nvmeof_exporter.exposition.metric import Metric
from nvmeof_exporter.exposition.renderings import Renderings

if TYPE_CHECKING:
    from collections.abc import Iterator


class Counted:
    """Tells how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.let_go = threading.Event()
        self.let_go.set()
        self.fails = False

    def collect(self) -> Iterator[Family]:
        self.asked += 1
        assert self.let_go.wait(10)
        yield Family(Metric("asked", "gauge", "How often."), f"asked {self.asked}.0\n")
        if self.fails:
            raise RuntimeError("half way")


def body(renderings: Renderings, *, openmetrics: bool = False, compressed: bool = False) -> bytes:
    return renderings.render(openmetrics=openmetrics, compressed=compressed).body


def test_a_state_is_rendered_once_per_format() -> None:
    counted, state = Counted(), object()
    renderings = Renderings(counted, lambda: state)
    first = body(renderings)
    assert first == b"# HELP asked How often.\n# TYPE asked gauge\nasked 1.0\n"
    assert body(renderings) is first
    assert gzip.decompress(body(renderings, compressed=True)).endswith(b"asked 2.0\n")
    assert body(renderings, openmetrics=True).endswith(b"asked 3.0\n# EOF\n")
    assert body(renderings, compressed=True) is body(renderings, compressed=True)
    assert counted.asked == 3


def test_only_what_was_made_anew_took_time() -> None:
    state = object()
    renderings = Renderings(Counted(), lambda: state)
    first = renderings.render(openmetrics=False, compressed=False)
    again = renderings.render(openmetrics=False, compressed=False)
    assert first.seconds is not None
    assert first.seconds > 0
    assert again.seconds is None


def test_another_state_is_rendered_anew() -> None:
    states = [1.5, 1.5, 2.5]
    renderings = Renderings(Counted(), lambda: states[0])
    assert body(renderings).endswith(b"asked 1.0\n")
    del states[:2]
    assert body(renderings).endswith(b"asked 2.0\n")


def test_before_there_is_a_state_nothing_is_shared() -> None:
    renderings = Renderings(Counted(), lambda: None)
    assert [body(renderings)[-4:-1] for _ in range(2)] == [b"1.0", b"2.0"]


def test_a_state_that_stays_is_rendered_anew_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    state = object()
    renderings = Renderings(Counted(), lambda: state)
    assert body(renderings).endswith(b"asked 1.0\n")
    clock[0] = 100.9
    assert body(renderings).endswith(b"asked 1.0\n")
    clock[0] = 101.1
    assert body(renderings).endswith(b"asked 2.0\n")


def test_scrapes_at_once_wait_for_one_rendering() -> None:
    counted, state = Counted(), object()
    counted.let_go.clear()
    renderings = Renderings(counted, lambda: state)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(body, renderings) for _ in range(8)]
        counted.let_go.set()
        assert len({answer.result(10) for answer in answers}) == 1
    assert counted.asked == 1


def test_a_failed_rendering_is_nobodys_answer() -> None:
    counted, state = Counted(), object()
    renderings = Renderings(counted, lambda: state)
    counted.fails = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="half way"):
            body(renderings)
    counted.fails = False
    assert body(renderings).endswith(b"asked 3.0\n")
