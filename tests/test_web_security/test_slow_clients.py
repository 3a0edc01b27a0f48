"""Hundreds of clients that take their time, in every way there is, and one that does not."""

from __future__ import annotations

import contextlib
import gc
import http.client
import resource
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.config import load
from nvmeof_exporter.exposition import connection as connection_module
from nvmeof_exporter.exposition import reception as reception_module
from nvmeof_exporter.exposition.listeners import open_listeners
from nvmeof_exporter.exposition.server import MOST_CONNECTIONS, WebServer
from nvmeof_exporter.exposition.web_security import WebSecurity
from tests.fixtures.descriptors import readable
from tests.test_daemon.running import eventually
from tests.test_web_security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from _typeshed.wsgi import StartResponse, WSGIEnvironment

CROWD = 500
AUTHORITY = Authority("authority")
BIG = b"x" * 1_000_000
SMALL = b"page\n"


def _pages(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    page = BIG if environ["PATH_INFO"] == "/big" else SMALL
    start_response("200 OK", [("Content-Length", str(len(page)))])
    return [page]


class Site:
    """A server with two threads for requests, in the clear or with TLS."""

    def __init__(self, security: WebSecurity | None = None) -> None:
        listeners = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), {})
        self.server = WebServer(_pages, listeners, 1, security)
        self.address = (self.server.addresses[0].host, self.server.addresses[0].port)
        self.context: ssl.SSLContext | None = None
        self.server.start()

    @property
    def waiting(self) -> int:
        return len(self.server._servers[0]._connections._waiting)

    def connect(self, first: bytes = b"") -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(self.address)
        # Whom the server has given up already is a client like the others.
        with contextlib.suppress(ConnectionError):
            client.sendall(first)
        return client

    def get(self, path: str = "/") -> bytes:
        connection = (
            http.client.HTTPConnection(*self.address, timeout=10)
            if self.context is None
            else http.client.HTTPSConnection(*self.address, timeout=10, context=self.context)
        )
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read()


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.stop()


@pytest.fixture
def tls_site(tmp_path: Path) -> Iterator[Site]:
    AUTHORITY.issue("server").write(tmp_path, "server")
    (tmp_path / "web.yaml").write_text(
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
    )
    site = Site(WebSecurity(str(tmp_path / "web.yaml")))
    site.context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    yield site
    site.server.stop()


def _hello() -> bytes:
    """Return the first flight of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="server")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=["silent", "half a head", "does not read"],
)
def test_a_crowd_of_slow_clients_keeps_nobody_waiting(site: Site, first: bytes) -> None:
    with contextlib.ExitStack() as crowd:
        for _ in range(CROWD):
            crowd.enter_context(site.connect(first))
        eventually(lambda: site.get() == SMALL, "what the crowd asked for is in work or answered")
        for _ in range(20):
            assert site.get() == SMALL
        assert site.get("/big") == BIG
        assert site.waiting < MOST_CONNECTIONS


@pytest.mark.parametrize(
    "first",
    [_hello()[:100], _hello()],
    ids=["half a hello", "a hello and no more"],
)
def test_a_crowd_that_does_not_finish_its_handshakes_keeps_nobody_waiting(
    tls_site: Site, first: bytes
) -> None:
    with contextlib.ExitStack() as crowd:
        for _ in range(CROWD):
            crowd.enter_context(tls_site.connect(first))
        for _ in range(20):
            assert tls_site.get() == SMALL
        assert tls_site.get("/big") == BIG


def test_a_crowd_is_gone_when_its_time_is_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_HEAD_SECONDS", 0.2)
    with contextlib.ExitStack() as crowd:
        clients = [crowd.enter_context(site.connect(b"GET / HT")) for _ in range(20)]
        assert [client.recv(10) for client in clients] == [b""] * 20
    eventually(lambda: site.waiting == 0, "all gone")


def test_a_client_that_takes_no_answer_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_ANSWER_SECONDS", 0.2)
    with site.connect(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n"):
        eventually(lambda: site.waiting == 1, "it is waited for")
        eventually(lambda: site.waiting == 0, "given up")


def test_answers_that_nobody_takes_are_bounded_and_the_oldest_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception_module, "_MOST_UNSENT_BYTES", 3 * len(BIG))
    with contextlib.ExitStack() as crowd:
        for _ in range(20):
            crowd.enter_context(site.connect(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n"))
        eventually(lambda: 1 <= site.waiting <= 4, "few are left")
        assert site.get("/big") == BIG


def test_a_client_that_reads_slowly_gets_everything(site: Site) -> None:
    with site.connect(b"GET /big HTTP/1.0\r\nHost: a\r\n\r\n") as client:
        received = b"".join(iter(lambda: client.recv(20_000), b""))
    assert received.endswith(b"\r\n\r\n" + BIG)


def test_requests_sent_together_are_answered_in_order(site: Site) -> None:
    request = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with site.connect(request % b"/" + request % b"/big" + last) as client:
        received = b"".join(iter(lambda: client.recv(65536), b""))
    bodies = [part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [SMALL, BIG, SMALL]


def test_a_body_is_not_taken_for_the_next_request(site: Site) -> None:
    smuggled = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
    head = b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    with site.connect(head + smuggled) as client:
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.count(b"HTTP/1.1") == 1
    assert b"Connection: close" in received


def test_more_requests_than_can_wait_are_told_to_come_back() -> None:
    entered, free = threading.Semaphore(0), threading.Event()

    def held(_: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        entered.release()
        assert free.wait(20)
        start_response("200 OK", [("Content-Length", "0")])
        return []

    listeners = open_listeners(load(["--web.listen-address=127.0.0.1:0"], {}), {})
    server = WebServer(held, listeners, 1)
    server.start()
    address = (server.addresses[0].host, server.addresses[0].port)
    with contextlib.ExitStack() as crowd:
        crowd.callback(server.stop)
        crowd.callback(free.set)
        clients = [
            crowd.enter_context(socket.create_connection(address, timeout=10)) for _ in range(100)
        ]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        answered = readable(clients, 10)[0]
        assert isinstance(answered, socket.socket)
        answer = answered.recv(1000)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in answer


def test_connections_leave_nothing_behind(site: Site) -> None:
    for _ in range(50):
        site.get()
    eventually(lambda: site.waiting == 0, "all parted")
    gc.collect()
    gc.disable()
    try:
        before = _connections()
        for _ in range(50):
            site.get()
        eventually(lambda: site.waiting == 0 and _connections() <= before + 1, "freed at once")
    finally:
        gc.enable()


def _connections() -> int:
    return sum(isinstance(one, connection_module.Connection) for one in gc.get_objects())
