"""A real Prometheus asks a real exporter with TLS both ways and passwords: rightly and wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.node_files import NodeFiles
from tests.test_daemon.prometheus import scraping
from tests.test_daemon.running import Exporter, eventually
from tests.test_web_security.certificates import Authority
from tests.test_web_security.serving import hashed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.prometheus

WEB = """\
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus]
basic_auth_users:
  alice: {hash}
"""

CERTIFICATE = "cert_file: DIR/client.crt, key_file: DIR/client.key"
TRUST = "ca_file: DIR/ca.crt"
LOGIN = "basic_auth: {username: alice, password: secret}"

#: By job: whether TLS is spoken, how, and as whom; and what Prometheus then says.
JOBS = {
    "right": ("https", f"tls_config: {{{TRUST}, {CERTIFICATE}}}, {LOGIN}", ""),
    "wrong-password": (
        "https",
        f"tls_config: {{{TRUST}, {CERTIFICATE}}}, basic_auth: {{username: alice, password: guess}}",
        "server returned HTTP status 401 Unauthorized",
    ),
    "unknown-user": (
        "https",
        f"tls_config: {{{TRUST}, {CERTIFICATE}}}, "
        "basic_auth: {username: carol, password: secret}",
        "server returned HTTP status 401 Unauthorized",
    ),
    "no-password": (
        "https",
        f"tls_config: {{{TRUST}, {CERTIFICATE}}}",
        "server returned HTTP status 401 Unauthorized",
    ),
    "wrong-ca": (
        "https",
        f"tls_config: {{ca_file: DIR/other.crt, {CERTIFICATE}}}, {LOGIN}",
        "certificate signed by unknown authority",
    ),
    "no-certificate": ("https", f"tls_config: {{{TRUST}}}, {LOGIN}", "tls: certificate required"),
    "certificate-of-another": (
        "https",
        f"tls_config: {{{TRUST}, cert_file: DIR/foreign.crt, key_file: DIR/foreign.key}}, {LOGIN}",
        "tls: unknown certificate authority",
    ),
    "another-name": (
        "https",
        f"tls_config: {{{TRUST}, cert_file: DIR/named.crt, key_file: DIR/named.key}}, {LOGIN}",
        "EOF",
    ),
    "tls-1.0": (
        "https",
        f"tls_config: {{{TRUST}, {CERTIFICATE}, min_version: TLS10, max_version: TLS10}}, {LOGIN}",
        "tls: protocol version not supported",
    ),
    "no-tls": ("http", LOGIN, "server returned HTTP status 400 Bad Request"),
}


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Exporter]:
    authority, other = Authority("authority"), Authority("other")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "other.crt").write_bytes(other.pem)
    authority.issue("server").write(tmp_path, "server")
    authority.issue("prometheus").write(tmp_path, "client")
    authority.issue("somebody").write(tmp_path, "named")
    other.issue("prometheus").write(tmp_path, "foreign")
    (tmp_path / "web.yaml").write_text(WEB.format(hash=hashed("secret", 8)))
    node = NodeFiles.load("four-gateways", tmp_path / "sys")
    exporter = Exporter(f"--path.sysfs={node.sysfs}", f"--web.config.file={tmp_path}/web.yaml")
    try:
        exporter.await_line("listening")
        yield exporter
    finally:
        assert exporter.stop() == 0
        assert exporter.process.stderr is not None
        exporter.process.stderr.close()


def test_prometheus_gets_in_as_it_should_and_in_no_other_way(
    exporter: Exporter, tmp_path: Path
) -> None:
    address = exporter.line("listening").rpartition("address=")[2]
    jobs = "".join(
        f"  - {{job_name: {job}, scheme: {scheme}, {how}, "
        f'static_configs: [{{targets: ["{address}"]}}]}}\n'
        for job, (scheme, how, _) in JOBS.items()
    ).replace("DIR", str(tmp_path))
    directory = tmp_path / "prometheus"
    directory.mkdir()
    with scraping(jobs, directory) as prometheus:
        eventually(
            lambda: all(target["health"] != "unknown" for target in prometheus.targets().values()),
            "each job has asked",
        )
        thrice = 'count_over_time(up{job="right"}[1m]) >= 3'
        eventually(lambda: bool(prometheus.query(thrice)), thrice)
        targets = prometheus.targets()
        assert {job for job, target in targets.items() if target["health"] == "up"} == {"right"}
        errors = {job: target["lastError"] for job, target in targets.items()}
        assert {job: said for job, (_, _, said) in JOBS.items() if said not in errors[job]} == {}, (
            errors
        )
        assert prometheus.value('min_over_time(up{job="right"}[1m])') == 1
        assert {one["metric"]["job"] for one in prometheus.query("nvmeof_subsystem_paths")} == {
            "right"
        }
    assert [line for line in exporter.lines if "level=warning" in line and "http" in line] == []
