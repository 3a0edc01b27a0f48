"""The web configuration file: what it means, and what is refused, in one line that says where."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.config.web_file import RateLimit, read_web_file
from nvmeof_exporter.config.web_tls import ClientAuth
from tests.test_daemon.running import run_to_the_end
from tests.test_web_security.serving import hashed

HASH = "$2y$10$mDwo.lAisC94iLAyP81MCesa29IzH37oigHC/42V2pdJlUprsJPze"

WHOLE = f"""\
tls_server_config:
  cert_file: server.crt
  key_file: keys/server.key
  client_ca_file: ca.crt
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [prometheus, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    X-XSS-Protection: ""
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
rate_limit:
  interval: 1m30s
  burst: 20
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir()
    for name in ("server.crt", "keys/server.key", "ca.crt"):
        (tmp_path / name).write_text(name)
    return tmp_path / "web.yaml"


def test_every_setting_is_understood(file: Path) -> None:
    file.write_text(WHOLE)
    settings = read_web_file(str(file))
    tls = settings.tls
    assert tls is not None
    assert tls.client_ca is not None
    assert (tls.certificate.data, tls.key.data, tls.client_ca.data) == (
        b"server.crt",
        b"keys/server.key",
        b"ca.crt",
    )
    assert tls.client_auth is ClientAuth.REQUIRED
    assert tls.allowed_sans == {"prometheus", "10.0.0.1"}
    assert (tls.minimum, tls.maximum) == ("TLS12", "TLS13")
    assert (tls.ciphers, tls.server_preference) == (("ECDHE-RSA-AES128-GCM-SHA256",), False)
    assert tls.curve == "X25519"
    assert settings.users == {"alice": HASH.encode()}
    assert settings.headers == (
        ("X-Frame-Options", "deny"),
        ("Strict-Transport-Security", "max-age=31536000"),
    )
    assert settings.rate_limit == RateLimit(90.0, 20)
    assert set(settings.files) == {
        str(file.parent / name) for name in ("web.yaml", "server.crt", "keys/server.key", "ca.crt")
    }


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "tls_server_config:\n", "rate_limit: {interval: 0}\n"]
)
def test_nothing_asks_for_nothing(file: Path, text: str) -> None:
    file.write_text(text)
    settings = read_web_file(str(file))
    assert (settings.tls, settings.users, settings.rate_limit) == (None, {}, None)


TLS = "tls_server_config: {cert_file: server.crt, key_file: keys/server.key"
VERIFIED = "NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tls_server_config: 1",
         '1: tls_server_config: found "1", expected a mapping of TLS settings'),
        ("tls: {}", '1: unknown key "tls"'),
        ("tls_server_config: {certfile: a}",
         '1: unknown key "tls_server_config.certfile"; did you mean cert_file?'),
        ("tls_server_config: {cert_file: server.crt}",
         "1: tls_server_config: expected key_file or key"),
        ("tls_server_config: {min_version: TLS13}",
         "1: tls_server_config: expected cert_file or cert"),
        (TLS + ", cert: x}", "1: tls_server_config: expected either cert or cert_file, found both"),
        ("tls_server_config:\n  cert_file: no.crt\n  key_file: keys/server.key",
         "2: tls_server_config.cert_file: DIR/no.crt: cannot be read: No such file or directory"),
        ("tls_server_config:\n  cert_file: keys\n  key_file: keys/server.key",
         "2: tls_server_config.cert_file: DIR/keys: cannot be read: Is a directory"),
        (TLS + ", min_version: TLS10}",
         '1: tls_server_config.min_version: found "TLS10", expected one of TLS12, TLS13'),
        (TLS + ", max_version: TLS11}",
         '1: tls_server_config.max_version: found "TLS11", expected one of TLS12, TLS13'),
        (TLS + ", min_version: TLS13, max_version: TLS12}",
         '1: tls_server_config.min_version: found "TLS13", expected at most the max_version TLS12'),
        *(
            (TLS + f", client_auth_type: {policy}}}",
             f'1: tls_server_config.client_auth_type: found "{policy}", '
             f"expected one of {VERIFIED}: a certificate that is asked for is always verified")
            for policy in ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
        ),
        (TLS + ", client_auth_type: Verify}",
         f'1: tls_server_config.client_auth_type: found "Verify", expected one of {VERIFIED}'),
        (TLS + ", client_auth_type: RequireAndVerifyClientCert}",
         "1: tls_server_config: expected both a client CA and a client_auth_type that uses it"),
        (TLS + ", client_ca_file: ca.crt}",
         "1: tls_server_config: expected both a client CA and a client_auth_type that uses it"),
        (TLS + ", client_allowed_sans: [a]}",
         "1: tls_server_config.client_allowed_sans: expected client_auth_type: "
         "RequireAndVerifyClientCert with it"),
        (TLS + ", client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert, "
         "client_allowed_sans: []}",
         "1: tls_server_config.client_allowed_sans: found an empty list, "
         "which would let nobody in"),
        (TLS + ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}",
         '1: tls_server_config.cipher_suites: unknown cipher suite "TLS_RSA_WITH_RC4_128_SHA"; '
         "did you mean TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA?"),
        (TLS + ", cipher_suites: [TLS_AES_128_GCM_SHA256]}",
         "1: tls_server_config.cipher_suites: expected a suite of TLS 1.2 among them, "
         "or else min_version: TLS13"),
        (TLS + ", prefer_server_cipher_suites: maybe}",
         '1: tls_server_config.prefer_server_cipher_suites: found "maybe", expected true or false'),
        (TLS + ", curve_preferences: [X448]}",
         '1: tls_server_config.curve_preferences: unknown curve "X448"'),
        (TLS + ", curve_preferences: [X25519, CurveP256]}",
         "1: tls_server_config.curve_preferences: found 2 curves, expected one: "
         "an order of preference cannot be given here"),
        ("http_server_config: {http2: true}",
         '1: http_server_config.http2: found "true", expected false: HTTP/2 is not spoken here'),
        ("http_server_config: {headers: {Server: me}}",
         '1: unknown key "http_server_config.headers.Server"'),
        ("http_server_config: {headers: {X-Frame-Options: allow}}",
         '1: http_server_config.headers.X-Frame-Options: found "allow", '
         "expected deny or sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "1\\r\\nSet-Cookie: a"}}',
         '1: http_server_config.headers.X-XSS-Protection: found "1\\r\\nSet-Cookie: a", '
         "expected printable ASCII"),
        ("basic_auth_users:\n  alice: hunter2",
         "2: basic_auth_users.alice: expected a bcrypt hash, as htpasswd -nB makes it"),
        ('basic_auth_users: {"a:b": x}', '1: "a:b" is no name for basic authentication'),
        ("basic_auth_users: {alice: [1]}",
         "1: basic_auth_users.alice: found a list, expected a bcrypt hash"),
        ("rate_limit: {interval: 5, burst: 1}",
         '1: rate_limit.interval: found "5", expected a duration with a unit, such as 5ms or 5s'),
        ("rate_limit: {interval: 5s}",
         "1: rate_limit: expected a burst of at least 1 with the interval"),
        ("rate_limit: {interval: 5s, burst: many}",
         '1: rate_limit.burst: found "many", expected a whole number from 0 to 1000000'),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_one_line(file: Path, text: str, line: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        read_web_file(str(file))
    said = str(refusal.value).replace(f"{file.parent}/", "DIR/")
    assert said == f"DIR/web.yaml:{line}"


@given(st.binary(max_size=200))
def test_whatever_stands_there_is_understood_or_refused(content: bytes) -> None:
    import tempfile  # noqa: PLC0415

    with tempfile.NamedTemporaryFile() as temporary:
        Path(temporary.name).write_bytes(content)
        try:
            read_web_file(temporary.name)
        except ConfigError as refusal:
            assert str(refusal).startswith(temporary.name)
            assert "\n" not in str(refusal)


def test_secrets_are_in_no_message(file: Path) -> None:
    for text in (
        "basic_auth_users: {alice: s3cr3t}",
        "tls_server_config: {cert: a, key: s3cr3t, cert_file: server.crt}",
        "tls_server_config: {key: s3cr3t}",
    ):
        file.write_text(text)
        with pytest.raises(ConfigError) as refusal:
            read_web_file(str(file))
        assert "s3cr3t" not in str(refusal.value)


def test_the_check_reads_the_web_file_too(file: Path) -> None:
    file.write_text("basic_auth_users: {alice: hunter2}\n")
    checked = run_to_the_end("--config.check", f"--web.config.file={file}")
    assert checked.returncode == 2
    assert checked.stderr == (
        f"nvmeof-exporter: error: {file}:1: basic_auth_users.alice: "
        "expected a bcrypt hash, as htpasswd -nB makes it\n"
    )
    file.write_text(f"basic_auth_users: {{alice: '{hashed('hunter2')}'}}\n")
    assert run_to_the_end("--config.check", f"--web.config.file={file}").returncode == 0


def test_a_web_file_that_cannot_be_used_ends_the_start(file: Path) -> None:
    file.write_text("tls_server_config: {cert_file: server.crt, key_file: keys/server.key}")
    ended = run_to_the_end(f"--web.config.file={file}", "--web.listen-address=127.0.0.1:0")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "tls_server_config.cert_file" in ended.stderr
