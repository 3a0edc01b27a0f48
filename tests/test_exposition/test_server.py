"""The whole HTTP side over real sockets on the loopback interface."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest
import structlog
from prometheus_client.core import GaugeMetricFamily

from nvmeof_exporter.config import ConfigError, ListenAddress, load
from nvmeof_exporter.exposition import connection as connection_module
from nvmeof_exporter.exposition import server as server_module
from nvmeof_exporter.exposition.listeners import bound_address, open_listeners
from nvmeof_exporter.exposition.renderings import Renderings
from nvmeof_exporter.exposition.server import WebServer
from nvmeof_exporter.exposition.web import Application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

_SERIES = b'nvmeof_subsystem_paths{nqn="a"} 2.0\n'


class _Collector:
    """Lets a test hold a scrape: ``free`` is set except where one does."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.free = threading.Event()
        self.free.set()

    def collect(self) -> Iterator[Metric]:
        self.entered.release()
        assert self.free.wait(10)
        paths = GaugeMetricFamily("nvmeof_subsystem_paths", "Paths.", labels=["nqn"])
        paths.add_metric(["a"], 2)
        yield paths


class _Running:
    def __init__(self, server: WebServer, collector: _Collector) -> None:
        self.server = server
        self.collector = collector
        self.address = (server.addresses[0].host, server.addresses[0].port)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=10)

    def request(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers=named)
            response = connection.getresponse()
            return response, response.read()


def _start(*flags: str, max_requests: int = 40) -> _Running:
    collector = _Collector()
    application = Application(
        Renderings(collector, object),
        health=lambda: None,
        ready=lambda: None,
        observe_scrape=lambda _: None,
        telemetry_path="/metrics",
        max_requests=max_requests,
    )
    config = load(list(flags), {})
    server = WebServer(application, open_listeners(config, {}), max_requests)
    server.start()
    return _Running(server, collector)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients whose time is up be found within 10 ms, not half a second."""
    monkeypatch.setattr(server_module._Server, "expiration_interval", 0.01)


@pytest.fixture
def running() -> Iterator[_Running]:
    running = _start("--web.listen-address=127.0.0.1:0", max_requests=1)
    yield running
    running.server.stop()


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0; charset=utf-8"),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_a_scraper_gets_the_format_it_asks_for(
    accept: str, content_type: str, running: _Running
) -> None:
    response, body = running.request("/metrics", Accept=accept)
    assert response.status == 200
    assert str(response.getheader("Content-Type")).startswith(content_type)
    assert _SERIES in body


def test_a_scraper_gets_it_compressed(running: _Running) -> None:
    response, body = running.request("/metrics", Accept_Encoding="gzip")
    assert response.getheader("Content-Encoding") == "gzip"
    assert _SERIES in gzip.decompress(body)


def test_head_sends_no_body(running: _Running) -> None:
    with running.connect() as client:
        client.sendall(b"HEAD /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, _, body = _everything(client).partition(b"\r\n\r\n")
    assert b"Content-Length: " in head
    assert body == b""


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", 200),
        ("GET", "/-/ready", 200),
        ("GET", "/no", 404),
        ("POST", "/metrics", 405),
    ],
)
def test_the_status_says_what_became_of_a_request(
    method: str, path: str, status: int, running: _Running
) -> None:
    assert running.request(path, method)[0].status == status


def test_the_server_names_itself_and_no_library(running: _Running) -> None:
    response, _ = running.request("/")
    assert response.getheader("Server") == "nvmeof-exporter"


def test_a_connection_serves_one_scrape_after_the_other(running: _Running) -> None:
    connection = http.client.HTTPConnection(*running.address, timeout=10)
    with contextlib.closing(connection):
        sockets = set()
        for _ in range(3):
            connection.request("GET", "/metrics")
            assert _SERIES in connection.getresponse().read()
            sockets.add(connection.sock)
    assert len(sockets) == 1


def test_one_scrape_too_many_is_answered_while_the_first_is_in_work(running: _Running) -> None:
    collector = running.collector
    collector.free.clear()
    statuses: list[int] = []
    first = threading.Thread(target=lambda: statuses.append(running.request("/metrics")[0].status))
    first.start()
    assert collector.entered.acquire(timeout=10)
    response, _ = running.request("/metrics")
    healthy, _ = running.request("/-/healthy")
    collector.free.set()
    first.join()
    assert (response.status, response.getheader("Retry-After")) == (503, "1")
    assert healthy.status == 200
    assert statuses == [200]


def test_silent_clients_occupy_no_thread(running: _Running) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(50):
            clients.enter_context(running.connect())
        assert running.request("/metrics")[0].status == 200


def test_a_client_that_stops_in_the_middle_of_its_request_blocks_no_other(
    running: _Running,
) -> None:
    with running.connect() as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n")
        assert running.request("/metrics")[0].status == 200
        slow.sendall(b"Connection: close\r\n\r\n")
        assert _SERIES in _everything(slow)


def test_a_client_that_drips_its_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_HEAD_SECONDS", 0.2)
    running = _start("--web.listen-address=127.0.0.1:0")
    with contextlib.closing(_Stopping(running)), running.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert _everything(slow) == b""


class _Stopping:
    def __init__(self, running: _Running) -> None:
        self.close = running.server.stop


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    ],
    ids=["long path", "long header", "many headers"],
)
def test_a_huge_request_head_is_refused(request_head: bytes, running: _Running) -> None:
    answer = _exchange(running, request_head)
    assert answer.partition(b"\r\n")[0].split()[1:2] in ([b"413"], [b"414"], [])
    assert _SERIES not in answer
    assert running.request("/metrics")[0].status == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", b"413"),
        (b"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
    ],
    ids=[
        "large body",
        "body of unknown length",
        "bad length",
        "negative length",
        "nonsense",
        "TLS",
    ],
)
def test_what_no_scraper_sends_is_refused(head: bytes, status: bytes, running: _Running) -> None:
    assert _exchange(running, head).split()[1] == status


def test_a_header_with_underscores_cannot_pose_as_another(running: _Running) -> None:
    response, _ = running.request("/metrics")
    with running.connect() as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\nHost: a\r\nAccept_Encoding: gzip\r\n\r\n")
        answer = _everything(client)
    assert response.status == 200
    assert b"Content-Encoding" not in answer


def test_trouble_goes_to_the_log_and_not_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> list[bytes]:
        raise RuntimeError("broken application")

    listeners = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), {})
    server = WebServer(fail, listeners, 1)
    with structlog.testing.capture_logs() as lines:
        server.start()
        running = _Running(server, _Collector())
        with contextlib.closing(_Stopping(running)):
            assert running.request("/")[0].status == 500
    assert capsys.readouterr().err == ""
    levels = [(line["event"], line["log_level"], line.get("detail")) for line in lines]
    assert levels[1:] == [("http server", "warning", "RuntimeError('broken application')")]


def test_every_address_is_served_by_the_same_application() -> None:
    running = _start("--web.listen-address=127.0.0.1:0", "--web.listen-address=127.0.0.2:0")
    with contextlib.closing(_Stopping(running)):
        hosts = [address.host for address in running.server.addresses]
        assert hosts == ["127.0.0.1", "127.0.0.2"]
        for address in running.server.addresses:
            with socket.create_connection(address, timeout=10) as client:
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                assert _SERIES in _everything(client)


def test_after_stop_nothing_listens_and_no_thread_is_left() -> None:
    before = set(threading.enumerate())
    running = _start("--web.listen-address=127.0.0.1:0")
    with contextlib.closing(_Stopping(running)):
        assert running.request("/metrics")[0].status == 200
    with pytest.raises(ConnectionRefusedError):
        running.connect()
    assert set(threading.enumerate()) == before


def test_a_server_that_never_started_can_be_stopped() -> None:
    listeners = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), {})
    WebServer(lambda _, __: [], listeners, 1).stop()
    assert listeners[0].fileno() == -1


def _refusal(*flags: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refusal:
        open_listeners(load(list(flags), {}), environ if environ is not None else {})
    return str(refusal.value)


def test_a_port_in_use_is_told_in_one_line_and_nothing_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = bound_address(taken)
        line = _refusal("--web.listen-address=127.0.0.1:0", f"--web.listen-address={address}")
    assert line == f"--web.listen-address: cannot listen on {address}: Address already in use"


def test_an_address_of_another_machine_is_told_in_one_line() -> None:
    assert _refusal("--web.listen-address=192.0.2.1:10067") == (
        "--web.listen-address: cannot listen on 192.0.2.1:10067: Cannot assign requested address"
    )


def test_a_host_name_that_does_not_exist_is_told_in_one_line() -> None:
    line = _refusal("--web.listen-address=host.invalid:10067")
    assert line.startswith("--web.listen-address: cannot listen on host.invalid:10067: ")


def _on_loopback(address: str, port: int) -> bytes:
    with socket.create_connection((address, port), timeout=10) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return _everything(client)


@pytest.fixture
def _without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)


def test_a_port_alone_is_served_on_ipv4() -> None:
    running = _start("--web.listen-address=:0")
    with contextlib.closing(_Stopping(running)):
        assert _SERIES in _on_loopback("127.0.0.1", running.address[1])


@pytest.mark.usefixtures("_without_ipv6")
def test_a_port_alone_is_served_on_ipv4_where_the_host_has_no_ipv6() -> None:
    running = _start("--web.listen-address=:0")
    with contextlib.closing(_Stopping(running)):
        assert running.address[0] == "0.0.0.0"
        assert _SERIES in _on_loopback("127.0.0.1", running.address[1])


def test_a_port_alone_is_one_socket_for_ipv6_and_ipv4_where_the_host_has_both() -> None:
    (listener,) = open_listeners(load(["--web.listen-address=:0"], {}), {})
    with listener:
        dual = socket.has_dualstack_ipv6()
        assert bound_address(listener).host == ("::" if dual else "0.0.0.0")


_ADOPT = """
import os, sys
from nvmeof_exporter.config import load
from nvmeof_exporter.exposition.listeners import bound_address, open_listeners
os.environ["LISTEN_PID"] = str(os.getpid())
listeners = open_listeners(load(["--web.systemd-socket"], {}), os.environ)
assert not os.get_inheritable(listeners[0].fileno())
assert not any(name.startswith("LISTEN_") for name in os.environ)
print(*map(bound_address, listeners))
"""


def _with_descriptor_3(descriptor: int, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program as systemd would start it, with a descriptor of ours as number 3."""
    launcher = f"import os; os.dup2({descriptor}, 3); os.set_inheritable(3, True);"
    launcher += f"os.execv({sys.executable!r}, ['python', '-c', {program!r}])"
    return subprocess.run(
        [sys.executable, "-c", launcher],
        pass_fds=[descriptor],
        env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_socket_handed_over_by_systemd_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = _with_descriptor_3(listener.fileno(), _ADOPT)
        assert done.stdout == f"{bound_address(listener)}\n", done.stderr


@pytest.mark.parametrize(
    ("opened", "reason"),
    [
        (lambda: socket.socket(socket.AF_UNIX), "is no listening TCP socket"),
        (socket.socket, "is no listening TCP socket"),
        (
            lambda: Path(os.devnull).open("rb"),  # noqa: SIM115
            "is no socket: Socket operation on non-socket",
        ),
    ],
    ids=["unix", "not listening", "file"],
)
def test_what_systemd_hands_over_must_be_a_listening_tcp_socket(
    opened: Callable[[], socket.socket | BinaryIO], reason: str
) -> None:
    with opened() as thing:
        done = _with_descriptor_3(thing.fileno(), _ADOPT)
    assert done.stderr.splitlines()[-1] == (
        f"nvmeof_exporter.config.errors.ConfigError: --web.systemd-socket: descriptor 3 {reason}"
    )


@pytest.mark.parametrize("environ", [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}])
def test_a_socket_that_systemd_did_not_hand_to_this_process_is_told(
    environ: dict[str, str],
) -> None:
    assert _refusal("--web.systemd-socket", environ=environ) == (
        "--web.systemd-socket: systemd has handed no socket over "
        "(LISTEN_PID and LISTEN_FDS are not set for this process)"
    )


def test_systemds_variables_are_taken_away_even_when_nobody_asked_for_its_sockets() -> None:
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "HOME": "/"}
    (listener,) = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), environ)
    listener.close()
    assert environ == {"HOME": "/"}


def test_a_listening_address_reads_like_a_configured_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert bound_address(listener) == ListenAddress("127.0.0.1", port)


def _exchange(running: _Running, request: bytes) -> bytes:
    """Send a request and read until the server has closed the connection."""
    with running.connect() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(request)
        return _everything(client)


def _everything(client: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := client.recv(65536):
            received += chunk
    return received
