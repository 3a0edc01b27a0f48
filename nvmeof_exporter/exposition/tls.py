"""TLS as the web configuration asks for it: one immutable object per version of the files."""

from __future__ import annotations

import os
import re
import ssl
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from nvmeof_exporter.config.errors import ConfigError
from nvmeof_exporter.config.web_tls import ClientAuth

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from nvmeof_exporter.config.web_tls import Pem, TlsSettings

__all__ = ["CertificateOutOfDate", "Tls"]

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}

#: What OpenSSL's verification says of a certificate's time (X509_V_ERR_…).
_NOT_YET_VALID, _EXPIRED = 9, 10

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")

#: Two flights each way are a whole handshake; more mean that it does not end.
_MOST_FLIGHTS = 8


class CertificateOutOfDate(Exception):  # noqa: N818 - a judgement, which not everybody shares
    """The certificate is sound, but expired or not yet valid; the text says which file."""


class Tls:
    """What connections are wrapped in.

    Raises:
        ConfigError: certificate, key or CA cannot be used, or not together.

    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._context = _context(settings)
        self._context.verify_mode = _VERIFY_MODES[settings.client_auth]
        if settings.client_ca is not None:
            _trust(self._context, settings.client_ca)

    def wrap(self, accepted: socket.socket) -> ssl.SSLSocket:
        """Wrap a socket that does not block; the handshake is still to be done."""
        return self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    def admits(self, client: ssl.SSLSocket) -> bool:
        """Whether a client whose handshake is done has one of the names asked for."""
        allowed = self._settings.allowed_sans
        return not allowed or not allowed.isdisjoint(_names(client.getpeercert()))

    def check_dates(self) -> None:
        """Shake hands with the server in memory, as a client would that knows its certificate.

        Raises:
            CertificateOutOfDate: it is expired or not yet valid.
            ConfigError: no client could connect at all.

        """
        where = self._settings.certificate.where
        try:
            _rehearse(_context(self._settings), _client_of(self._settings))
        except ssl.SSLCertVerificationError as error:
            if error.verify_code == _EXPIRED:
                raise CertificateOutOfDate(f"{where}: the certificate has expired") from None
            if error.verify_code == _NOT_YET_VALID:
                raise CertificateOutOfDate(f"{where}: the certificate is not yet valid") from None
            # Whom it is for and who signed it is for clients to judge.
        except ssl.SSLError as error:
            raise ConfigError(
                f"{where}: no client could connect with these settings: {_reason(error)}"
            ) from None


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.minimum]
    context.maximum_version = _VERSIONS[settings.maximum]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if settings.server_preference:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if settings.ciphers:
            context.set_ciphers(":".join(settings.ciphers))
        if settings.curve:
            context.set_ecdh_curve(settings.curve)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{settings.certificate.where}: this machine's OpenSSL has not got the cipher suites "
            f"or the curve: {error}"
        ) from None
    context.set_alpn_protocols(["http/1.1"])
    _load(context, settings)
    return context


def _load(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load what was read, which is not the files' contents of a moment later."""

    def no_password() -> str:
        raise ConfigError(f"{settings.key.where}: the key is encrypted, expected a plain one")

    certificate, key = settings.certificate, settings.key
    with _in_memory(certificate.data) as certificate_file, _in_memory(key.data) as key_file:
        try:
            context.load_cert_chain(certificate_file, key_file, no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                problem = "the key is not that of the certificate"
            else:
                problem = f"certificate and key cannot be used: {_reason(error)}"
            raise ConfigError(f"{certificate.where}: {problem}") from None
        except OSError as error:
            raise ConfigError(f"{certificate.where}: cannot be loaded: {error}") from None


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Give the name of a file that holds the data and is on no disk."""
    descriptor = os.memfd_create("pem")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _certificates(pem: Pem) -> list[str]:
    return [block.decode() for block in _CERTIFICATE.findall(pem.data)]


def _trust(context: ssl.SSLContext, ca: Pem) -> None:
    try:
        context.load_verify_locations(cadata="\n".join(_certificates(ca)))
    except (ssl.SSLError, ValueError) as error:
        reason = _reason(error) if isinstance(error, ssl.SSLError) else "it holds no certificate"
        raise ConfigError(f"{ca.where}: the client CA cannot be used: {reason}") from None


def _client_of(settings: TlsSettings) -> ssl.SSLContext:
    """Return a client that trusts the server's certificate for being that one."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.ciphers:
        client.set_ciphers(":".join(settings.ciphers))
    client.load_verify_locations(cadata=_certificates(settings.certificate)[0])
    return client


def _rehearse(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_MOST_FLIGHTS):
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
        if not ends:
            return
    raise ssl.SSLError("the handshake does not end")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _names(certificate: Any) -> set[str]:  # noqa: ANN401 - a tree of texts
    """Return the subject's alternative names: DNS, IP addresses, e-mail, URI."""
    names = set()
    for kind, name in (certificate or {}).get("subjectAltName", ()):
        if kind == "IP Address":
            names.add(str(ip_address(name.strip())))
        elif kind in {"DNS", "email", "URI"}:
            names.add(name)
    return names
