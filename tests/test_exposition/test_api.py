"""The API over HTTP: what is answered, what is refused, and how."""

from __future__ import annotations

import gzip
import http.client
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest

from nvmeof_exporter.config import load
from nvmeof_exporter.exposition import server as server_module
from nvmeof_exporter.exposition.api import api_routes
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.listeners import open_listeners
from nvmeof_exporter.exposition.renderings import Renderings
from nvmeof_exporter.exposition.server import WebServer
from nvmeof_exporter.exposition.web import Application
from nvmeof_exporter.view.build import Where
from nvmeof_exporter.view.events import EventsView
from nvmeof_exporter.view.live import LiveView
from nvmeof_exporter.view.model import NodeView
from tests.fixtures.viewing import served_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nvmeof_exporter.exposition.published import Published

STATUS, EVENTS = "/api/v1/status", "/api/v1/events"


class Api:
    """A server of the API alone; ``hold`` keeps its requests in work while it is cleared."""

    def __init__(self, published: Published, *, max_requests: int = 40, telemetry: str) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.entered = threading.Semaphore(0)
        live = LiveView(published, Where("gpu1", "/sys"), self._health)
        application = Application(
            Renderings(StateCollector(published), object),
            health=lambda: None,
            ready=lambda: None,
            observe_scrape=lambda _: None,
            telemetry_path=telemetry,
            max_requests=max_requests,
        )
        application.add(api_routes(live, published))
        listeners = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), {})
        self.server = WebServer(application, listeners, max_requests)
        self.server.start()

    def _health(self) -> str | None:
        self.entered.release()
        assert self.hold.wait(10)
        return None

    def ask(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        address = self.server.addresses[0]
        connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection):
            connection.request(method, path, headers=named)
            response = connection.getresponse()
            return response, response.read()


@pytest.fixture(autouse=True)
def _quick_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module._Server, "expiration_interval", 0.01)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    served, node = served_node("scoped-ipv6", tmp_path)
    node.advance()
    served.poll(node.time)
    api = Api(served.published, max_requests=1, telemetry="/metrics")
    yield api
    api.server.stop()


def test_the_status_is_the_view_as_json(api: Api) -> None:
    response, body = api.ask(STATUS)
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    view = msgspec.json.decode(body, type=NodeView)
    assert [path.state for path in view.subsystems[0].paths] == ["live", "connecting"]
    assert (view.node, view.source) == ("gpu1", "exporter")


def test_events_are_told_as_json(api: Api) -> None:
    response, body = api.ask(f"{EVENTS}?since=0&limit=1")
    assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
    view = msgspec.json.decode(body, type=EventsView)
    assert [(event.old, event.new) for event in view.events] == [("live", "connecting")]


@pytest.mark.parametrize("path", [STATUS, EVENTS])
def test_answers_are_compressed_for_who_accepts_it(api: Api, path: str) -> None:
    response, body = api.ask(path, Accept_Encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert response.headers["Vary"] == "Accept-Encoding"
    assert msgspec.json.decode(gzip.decompress(body))["instance"]


@pytest.mark.parametrize("path", [STATUS, EVENTS])
def test_head_has_no_body_and_other_methods_are_refused(api: Api, path: str) -> None:
    response, body = api.ask(path, "HEAD")
    assert (response.status, body) == (200, b"")
    assert int(response.headers["Content-Length"]) > 0
    for method in ("POST", "PUT", "DELETE"):
        response, _ = api.ask(path, method)
        assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("since=x", 'since: "x": expected a whole number, 0 or more'),
        ("since=-1", 'since: "-1": expected a whole number, 0 or more'),
        ("since=", 'since: "": expected a whole number, 0 or more'),
        ("since=1.5", 'since: "1.5": expected a whole number, 0 or more'),
        ("since=%D9%A3", 'since: "٣": expected a whole number, 0 or more'),
        ("since=9223372036854775808", None),
        ("since=" + "9" * 5000, None),
        ("limit=0", 'limit: "0": expected a whole number, 1 to 1000'),
        ("limit=1001", 'limit: "1001": expected a whole number, 1 to 1000'),
        ("limit=5&limit=6", "limit: given more than once"),
        ("limt=5", 'unknown parameter "limt": expected since, limit'),
        ("since=%0A%1b[31m", 'since: "\\n\\u001b[31m": expected a whole number, 0 or more'),
    ],
)
def test_a_bad_parameter_is_one_line(api: Api, query: str, line: str | None) -> None:
    response, body = api.ask(f"{EVENTS}?{query}")
    assert response.status == 400
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    text = body.decode()
    assert text.count("\n") == 1
    assert len(text) < 200
    assert line is None or text == f"{line}\n"


def test_the_status_has_no_parameters(api: Api) -> None:
    response, body = api.ask(f"{STATUS}?since=5")
    assert (response.status, body) == (400, b'unknown parameter "since": expected none\n')


def test_requests_are_limited_like_those_for_metrics(api: Api) -> None:
    api.hold.clear()
    first = threading.Thread(target=api.ask, args=(STATUS,))
    first.start()
    try:
        assert api.entered.acquire(timeout=10)
        for path in (STATUS, EVENTS, "/metrics"):
            response, body = api.ask(path)
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
            assert body == b"too many requests at once (--web.max-requests)\n"
    finally:
        api.hold.set()
        first.join()
    assert api.ask(STATUS)[0].status == 200


def test_before_the_first_poll_there_is_nothing_to_tell(tmp_path: Path) -> None:
    served, _ = served_node("scoped-ipv6", tmp_path)
    with served.published.write() as state:
        state.snapshot = None
    api = Api(served.published, telemetry="/metrics")
    try:
        response, body = api.ask(STATUS)
    finally:
        api.server.stop()
    assert (response.status, body) == (503, b"not polled yet\n")


def test_metrics_that_were_configured_to_be_there_stay_there(tmp_path: Path) -> None:
    served, _ = served_node("scoped-ipv6", tmp_path)
    api = Api(served.published, telemetry=STATUS)
    try:
        response, body = api.ask(STATUS)
    finally:
        api.server.stop()
    assert response.headers["Content-Type"].startswith("text/plain")
    assert b"nvmeof_path_state" in body
