"""The WSGI application on its own, called as a server calls it."""

from __future__ import annotations

import gzip
import threading
from typing import TYPE_CHECKING, NamedTuple
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from nvmeof_exporter.exposition.renderings import Renderings
from nvmeof_exporter.exposition.response import Response
from nvmeof_exporter.exposition.web import Application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric


class _Collector:
    def collect(self) -> Iterator[Metric]:
        paths = GaugeMetricFamily("nvmeof_subsystem_paths", "Paths.", labels=["nqn"])
        paths.add_metric(["nqn.größe"], 2)
        yield paths
        yield CounterMetricFamily("nvmeof_failovers", "Failovers.", value=3)


class _Broken:
    def collect(self) -> Iterator[Metric]:
        yield from _Collector().collect()
        raise RuntimeError("half way")


class _Answer(NamedTuple):
    status: str
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def _app(
    collector: _Collector | _Broken | None = None,
    *,
    health: Callable[[], str | None] = lambda: None,
    ready: Callable[[], str | None] = lambda: None,
    observe_scrape: Callable[[float], None] = lambda _: None,
    telemetry_path: str = "/metrics",
    max_requests: int = 40,
) -> Application:
    return Application(
        Renderings(collector or _Collector(), object),
        health=health,
        ready=ready,
        observe_scrape=observe_scrape,
        telemetry_path=telemetry_path,
        max_requests=max_requests,
    )


def _get(app: Application, path: str, *, method: str = "GET", **headers: str) -> _Answer:
    environ: dict[str, object] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
    }
    environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    setup_testing_defaults(environ)
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> object:
        started.append((status, headers))
        return lambda _: None

    checked: Callable[..., Iterable[bytes]] = validator(app)
    chunks = checked(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        chunks.close()  # type: ignore[attr-defined]
    ((status, sent),) = started
    return _Answer(status, dict(sent), body)


def test_metrics_come_in_the_classic_text_format_to_who_asks_for_nothing() -> None:
    answer = _get(_app(), "/metrics")
    assert answer.status == "200 OK"
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.text == (
        "# HELP nvmeof_subsystem_paths Paths.\n"
        "# TYPE nvmeof_subsystem_paths gauge\n"
        'nvmeof_subsystem_paths{nqn="nqn.größe"} 2.0\n'
        "# HELP nvmeof_failovers_total Failovers.\n"
        "# TYPE nvmeof_failovers_total counter\n"
        "nvmeof_failovers_total 3.0\n"
    )


def test_metrics_come_in_text_format_1_to_who_asks_for_it() -> None:
    answer = _get(_app(), "/metrics", accept="text/plain;version=1.0.0")
    assert answer.headers["Content-Type"].startswith("text/plain; version=1.0.0; charset=utf-8")
    names = {family.name for family in plain_text(answer.text)}
    assert names == {"nvmeof_subsystem_paths", "nvmeof_failovers"}


def test_metrics_come_as_openmetrics_to_who_asks_for_it() -> None:
    answer = _get(_app(), "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Type"].startswith(
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    )
    assert answer.text.endswith("# EOF\n")
    families = openmetrics(answer.text)  # type: ignore[no-untyped-call]
    names = {family.name for family in families}
    assert names == {"nvmeof_subsystem_paths", "nvmeof_failovers"}


def test_metrics_are_compressed_for_who_accepts_it() -> None:
    plain = _get(_app(), "/metrics")
    packed = _get(_app(), "/metrics", accept_encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/ready", "/none"])
def test_head_has_the_headers_of_get_and_no_body(path: str) -> None:
    got, headed = _get(_app(), path), _get(_app(), path, method="HEAD")
    assert headed == (got.status, got.headers, b"")
    assert int(headed.headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/metrics"])
def test_other_methods_are_refused_with_those_allowed(method: str, path: str) -> None:
    answer = _get(_app(), path, method=method)
    assert answer.status == "405 Method Not Allowed"
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/metric", "/metrics/", "//metrics", "/-/", "/favicon.ico"])
def test_there_is_nothing_elsewhere(path: str) -> None:
    assert _get(_app(), path).status == "404 Not Found"


def test_the_metrics_are_where_they_were_configured_to_be() -> None:
    app = _app(telemetry_path="/nvme/metrics")
    assert "nvmeof_subsystem_paths" in _get(app, "/nvme/metrics").text
    assert _get(app, "/metrics").status == "404 Not Found"


def test_metrics_at_the_root_take_the_place_of_the_page() -> None:
    app = _app(telemetry_path="/")
    app.add({"/": lambda _: Response("200 OK", b"a page\n")})
    assert "nvmeof_subsystem_paths" in _get(app, "/").text


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_a_probe_tells_the_reason_when_something_is_wrong(path: str) -> None:
    reasons: list[str | None] = [None, "no poll for 3 s — größer als 1 s", None]
    app = _app(health=lambda: reasons.pop(0), ready=lambda: reasons.pop(0))
    answers = [_get(app, path) for _ in range(3)]
    assert [answer.status for answer in answers] == [
        "200 OK",
        "503 Service Unavailable",
        "200 OK",
    ]
    assert answers[1].text == "no poll for 3 s — größer als 1 s\n"


def test_health_and_readiness_are_two_questions() -> None:
    app = _app(health=lambda: None, ready=lambda: "the first poll is not finished")
    assert _get(app, "/-/healthy").text == "healthy\n"
    assert _get(app, "/-/ready").text == "the first poll is not finished\n"


def test_a_scrape_is_timed_once_and_nothing_else_is() -> None:
    seconds: list[float] = []
    app = _app(observe_scrape=seconds.append)
    for path in ("/metrics", "/", "/-/healthy"):
        _get(app, path)
    assert len(seconds) == 1
    assert seconds[0] > 0


def test_a_failing_collector_is_an_error_and_never_half_a_page() -> None:
    seconds: list[float] = []
    with structlog.testing.capture_logs() as lines:
        answer = _get(_app(_Broken(), observe_scrape=seconds.append), "/metrics")
    assert answer.status == "500 Internal Server Error"
    assert answer.text == "failed; the log says why\n"
    assert [(line["event"], line["path"]) for line in lines] == [("request failed", "/metrics")]
    assert seconds == []


def test_a_failure_uses_up_no_room_for_later_scrapes() -> None:
    app = _app(_Broken(), max_requests=1)
    with structlog.testing.capture_logs():
        statuses = {_get(app, "/metrics").status for _ in range(3)}
    assert statuses == {"500 Internal Server Error"}


class _Held(_Collector):
    """Does not finish before it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def collect(self) -> Iterator[Metric]:
        self.entered.set()
        assert self.let_go.wait(10)
        yield from super().collect()


def test_one_scrape_too_many_is_told_to_come_back_and_probes_are_not() -> None:
    held = _Held()
    app = _app(held, max_requests=1)
    answers: list[_Answer] = []
    first = threading.Thread(target=lambda: answers.append(_get(app, "/metrics")))
    first.start()
    assert held.entered.wait(10)
    second = _get(app, "/metrics")
    healthy = _get(app, "/-/healthy")
    held.let_go.set()
    first.join()
    assert (second.status, second.headers["Retry-After"]) == ("503 Service Unavailable", "1")
    assert healthy.status == "200 OK"
    assert answers[0].status == "200 OK"
    assert _get(app, "/metrics").status == "200 OK"
