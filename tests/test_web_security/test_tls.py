"""TLS over real sockets: who gets in, who does not, and certificates that change meanwhile."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.exposition import web_security
from nvmeof_exporter.exposition.web_security import WebSecurity, check_web_file
from tests.test_daemon.running import eventually
from tests.test_web_security.certificates import Authority, Issued
from tests.test_web_security.serving import basic, hashed, served

if TYPE_CHECKING:
    from pathlib import Path

    from tests.test_web_security.serving import Served

AUTHORITY = Authority("authority")
OTHER = Authority("other")
SERVER = AUTHORITY.issue("server")
CLIENT = AUTHORITY.issue("prometheus")

TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key"
MUTUAL = f"{TLS}, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert"

#: How clients see that they are not wanted.
REFUSED = (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    SERVER.write(tmp_path, "server")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    return tmp_path


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_security, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(web_security, "_RETRY_SECONDS", 0.02)


def client(
    directory: Path, issued: Issued | None = None, trusted: Authority = AUTHORITY
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusted.pem.decode())
    if issued is not None:
        issued.write(directory, "client")
        context.load_cert_chain(directory / "client.crt", directory / "client.key")
    return context


def served_certificate(running: Served) -> bytes:
    return ssl.get_server_certificate(running.address, timeout=10).encode()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pages_are_served_over_tls(directory: Path, version: ssl.TLSVersion) -> None:
    context = client(directory)
    context.maximum_version = version
    with served(directory, TLS + "}") as running:
        assert running.get(context).status == 200


def test_certificate_and_key_may_stand_in_the_file_itself(tmp_path: Path) -> None:
    certificate, key = (
        "".join(f"    {line}\n" for line in pem.decode().splitlines())
        for pem in (SERVER.certificate, SERVER.key)
    )
    text = f"tls_server_config:\n  cert: |\n{certificate}  key: |\n{key}"
    with served(tmp_path, text) as running:
        assert running.get(client(tmp_path)).status == 200


def test_a_client_that_does_not_trust_the_server_goes_away(directory: Path) -> None:
    with served(directory, TLS + "}") as running:
        with pytest.raises(ssl.SSLCertVerificationError):
            running.get(client(directory, trusted=OTHER))
        assert running.get(client(directory)).status == 200


def test_plain_http_is_told_that_it_is_not_spoken(directory: Path) -> None:
    with served(directory, TLS + "}") as running:
        assert running.get().status == 400


@pytest.mark.parametrize("version", ["TLS 1.0", "TLS 1.1"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_is_refused(directory: Path, version: str) -> None:
    context = client(directory)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = (
        ssl.TLSVersion.TLSv1 if version == "TLS 1.0" else ssl.TLSVersion.TLSv1_1
    )
    with served(directory, TLS + "}") as running:
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            running.get(context)
        assert running.get(client(directory)).status == 200


def test_the_least_version_is_kept_to(directory: Path) -> None:
    context = client(directory)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with served(directory, TLS + ", min_version: TLS13}") as running:
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            running.get(context)
        assert running.get(client(directory)).status == 200


def test_the_greatest_version_the_cipher_suites_and_the_curve_are_kept_to(directory: Path) -> None:
    text = (
        f"{TLS}, max_version: TLS12, curve_preferences: [CurveP384], "
        "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]}"
    )
    with served(directory, text) as running:
        raw = socket.create_connection(running.address, timeout=10)
        with client(directory).wrap_socket(raw, server_hostname="server") as connection:
            assert connection.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
        other = client(directory)
        other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            running.get(other)
        curve = client(directory)
        curve.set_ecdh_curve("prime256v1")
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            running.get(curve)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_only_clients_of_the_authority_get_in(directory: Path, version: ssl.TLSVersion) -> None:
    def asking(issued: Issued | None) -> ssl.SSLContext:
        context = client(directory, issued)
        context.maximum_version = version
        return context

    expired = AUTHORITY.issue("prometheus", (-3, -2))
    with served(directory, MUTUAL + "}") as running:
        assert running.get(asking(CLIENT)).status == 200
        for stranger in (None, OTHER.issue("prometheus"), expired):
            with pytest.raises(REFUSED):
                running.get(asking(stranger))
        assert running.get(asking(CLIENT)).status == 200


def test_a_certificate_may_be_asked_for_and_not_needed(directory: Path) -> None:
    text = f"{TLS}, client_ca_file: ca.crt, client_auth_type: VerifyClientCertIfGiven}}"
    with served(directory, text) as running:
        assert running.get(client(directory)).status == 200
        assert running.get(client(directory, CLIENT)).status == 200
        with pytest.raises(REFUSED):
            running.get(client(directory, OTHER.issue("prometheus")))


@pytest.mark.parametrize(
    "name",
    [
        "prometheus",
        "2001:db8::1",
        "127.0.0.1",
        "spiffe://example.org/prometheus",
        "prometheus@example.org",
    ],
)
def test_only_clients_of_a_name_get_in(directory: Path, name: str) -> None:
    with served(directory, f'{MUTUAL}, client_allowed_sans: [other, "{name}"]}}') as running:
        assert running.get(client(directory, CLIENT)).status == 200
    with (
        served(directory, f'{MUTUAL}, client_allowed_sans: ["x{name}"]}}') as running,
        pytest.raises(REFUSED),
    ):
        running.get(client(directory, CLIENT))


def test_a_new_certificate_is_served_without_a_restart(directory: Path) -> None:
    new = AUTHORITY.issue("server")
    with served(directory, TLS + "}") as running:
        assert served_certificate(running) == SERVER.certificate
        new.write(directory, "server")
        eventually(lambda: served_certificate(running) == new.certificate, "the new one")


EXPIRED = AUTHORITY.issue("server", (-3, -2))
EARLY = AUTHORITY.issue("server", (2, 3))


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        (EXPIRED.certificate, EXPIRED.key, "the certificate has expired"),
        (EARLY.certificate, EARLY.key, "the certificate is not yet valid"),
        (SERVER.certificate[:200], SERVER.key, "certificate and key cannot be used: "),
        (b"", SERVER.key, "certificate and key cannot be used: "),
        (SERVER.certificate, SERVER.key[:100], "certificate and key cannot be used: "),
        (SERVER.certificate, CLIENT.key, "the key is not that of the certificate"),
    ],
    ids=["expired", "early", "cut off", "empty", "key cut off", "key of another"],
)
def test_a_certificate_that_cannot_be_used_leaves_the_old_one(
    directory: Path, certificate: bytes, key: bytes, said: str
) -> None:
    with capture_logs() as lines, served(directory, TLS + "}") as running:
        Issued(certificate, key).write(directory, "server")
        eventually(lambda: any(line["log_level"] == "error" for line in lines), "told")
        assert not running.security.works
        running.security.look()
        assert running.get(client(directory)).status == 200
        assert served_certificate(running) == SERVER.certificate
        SERVER.write(directory, "server")
        eventually(lambda: lines[-1]["event"] == "web configuration reloaded", "well again")
    errors = [line for line in lines if line["log_level"] == "error"]
    assert {line["event"] for line in errors} == {
        "web configuration not reloaded, the old one stays"
    }
    assert any(said in line["reason"] for line in errors)
    place = f"{directory}/web.yaml:1: tls_server_config.cert_file: {directory}/server.crt: "
    assert all(line["reason"].startswith(place) for line in errors)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "tls_server_config is gone; without it only after a restart"),
        (TLS, "is no valid YAML: expected ',' or '}', but got '<stream end>'"),
        (TLS + "}\n", "basic_auth_users is gone; without it only after a restart"),
    ],
    ids=["empty", "half", "without users"],
)
def test_a_file_that_asks_for_less_opens_no_door(directory: Path, text: str, said: str) -> None:
    whole = f"{TLS}}}\nbasic_auth_users: {{alice: '{hashed('secret')}'}}\n"
    with capture_logs() as lines, served(directory, whole) as running:
        (directory / "web.yaml").write_text(text)
        eventually(lambda: any(said in line.get("reason", "") for line in lines), "told")
        assert running.get(client(directory)).status == 401
        assert running.get(client(directory), basic("alice", "secret")).status == 200
        assert running.get().status == 400


def test_a_file_that_vanishes_leaves_the_old_version(directory: Path) -> None:
    with capture_logs() as lines, served(directory, TLS + "}") as running:
        (directory / "server.key").unlink()
        eventually(lambda: any(line["log_level"] == "error" for line in lines), "told")
        assert running.get(client(directory)).status == 200
    (error,) = (line for line in lines if line["log_level"] == "error")
    assert error["reason"] == (
        f"{directory}/web.yaml:1: tls_server_config.key_file: "
        f"{directory}/server.key: cannot be read: No such file or directory"
    )


def test_a_secret_swapped_by_a_link_is_seen(directory: Path) -> None:
    """Let a directory change at once, as Kubernetes does with mounted secrets."""
    new = AUTHORITY.issue("server")
    for version, issued in (("1", SERVER), ("2", new)):
        (directory / version).mkdir()
        issued.write(directory / version, "server")
    (directory / "data").symlink_to("1")
    text = "tls_server_config: {cert_file: data/server.crt, key_file: data/server.key}"
    with served(directory, text) as running:
        (directory / "next").symlink_to("2")
        os.replace(directory / "next", directory / "data")
        eventually(lambda: served_certificate(running) == new.certificate, "the new one")


def test_a_certificate_out_of_date_is_served_at_the_start_with_an_error(directory: Path) -> None:
    EXPIRED.write(directory, "server")
    with capture_logs() as lines, served(directory, TLS + "}") as running:
        with pytest.raises(ssl.SSLCertVerificationError):
            running.get(client(directory))
        assert not running.security.works
        SERVER.write(directory, "server")
        eventually(lambda: served_certificate(running) == SERVER.certificate, "the new one")
        eventually(lambda: running.security.works, "well again")
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "certificate out of date, served nevertheless"
    ]


def test_a_certificate_that_expires_while_it_is_served_is_told_once(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_security, "_DATES_SECONDS", 0.02)
    seconds = 1.5 / 86400
    AUTHORITY.issue("server", (-1, seconds)).write(directory, "server")
    with capture_logs() as lines, served(directory, TLS + "}") as running:
        eventually(lambda: not running.security.works, "expired")
        with pytest.raises(ssl.SSLCertVerificationError):
            running.get(client(directory))
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["certificate out of date, served nevertheless"]


def test_a_check_does_not_pass_a_certificate_out_of_date(directory: Path) -> None:
    EXPIRED.write(directory, "server")
    (directory / "web.yaml").write_text(TLS + "}")
    with pytest.raises(ConfigError, match="the certificate has expired"):
        check_web_file(str(directory / "web.yaml"))
    SERVER.write(directory, "server")
    check_web_file(str(directory / "web.yaml"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (TLS + ", cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], max_version: TLS12}",
         "no client could connect with these settings: "),
        (TLS + ", client_ca_file: server.key, client_auth_type: RequireAndVerifyClientCert}",
         "the client CA cannot be used: "),
    ],
    ids=["suites for another kind of key", "a CA that is none"],
)  # fmt: skip
def test_what_could_never_work_is_refused_at_the_start(
    directory: Path, damage: str, said: str
) -> None:
    (directory / "web.yaml").write_text(damage)
    with pytest.raises(ConfigError, match=said):
        check_web_file(str(directory / "web.yaml"))


def test_an_encrypted_key_is_refused_and_nobody_asked_for_its_password(directory: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    key = serialization.load_pem_private_key(SERVER.key, None)
    (directory / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    (directory / "web.yaml").write_text(TLS + "}")
    with pytest.raises(ConfigError, match="the key is encrypted, expected a plain one"):
        WebSecurity(str(directory / "web.yaml"))


def test_a_password_can_be_changed_though_the_certificate_has_expired(directory: Path) -> None:
    EXPIRED.write(directory, "server")
    users = "basic_auth_users: {{alice: '{}'}}\n"
    with served(directory, f"{TLS}}}\n" + users.format(hashed("old"))) as running:
        context = client(directory)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        assert running.get(context, basic("alice", "old")).status == 200
        (directory / "web.yaml").write_text(f"{TLS}}}\n" + users.format(hashed("new")))
        eventually(lambda: running.get(context, basic("alice", "new")).status == 200, "new")
        assert running.get(context, basic("alice", "old")).status == 401
