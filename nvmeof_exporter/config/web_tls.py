"""The section ``tls_server_config`` of the web configuration file.

Names are those of exporter-toolkit, which are Go's; they are translated here to
what Python's ``ssl`` understands, and refused where it has nothing like it.
"""

from __future__ import annotations

import enum
import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from nvmeof_exporter.config.errors import ConfigError, quoted, suggestion
from nvmeof_exporter.config.values import FLAG

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.config.file import FileNode

__all__ = ["ClientAuth", "Pem", "TlsSettings", "decode_tls", "flag", "parsed"]

T = TypeVar("T")

_KEYS = (
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
)

_VERSIONS = ("TLS12", "TLS13")

#: Go's (IANA's) names of the suites for TLS 1.2, and OpenSSL's.
_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}

#: Those of TLS 1.3 are always on, here as in Go, whatever the list says.
_TLS13_CIPHERS = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)

_CURVES = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


class ClientAuth(enum.Enum):
    """What is asked of a client's certificate."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


#: Python's ssl verifies every certificate it asks for; Go has policies that do not.
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")


class Pem(NamedTuple):
    """PEM as it was read, and the place that said so, for messages."""

    data: bytes
    where: str


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What a TLS connection must comply with; names are OpenSSL's.

    ``minimum`` and ``maximum`` are ``TLS12`` or ``TLS13``; no ``ciphers`` and no
    ``curve`` mean the library's own choice.
    """

    certificate: Pem
    key: Pem
    client_auth: ClientAuth = ClientAuth.NONE
    client_ca: Pem | None = None
    allowed_sans: frozenset[str] = frozenset()
    minimum: str = "TLS12"
    maximum: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    server_preference: bool = True
    curve: str = ""


def flag(node: FileNode) -> bool:
    """Decode a switch. Raises ConfigError."""
    return parsed(node, FLAG.parse, "true or false")


def parsed(node: FileNode, parse: Callable[[str], T], expected: str) -> T:
    """Decode a scalar by a parser that raises ValueError. Raises ConfigError."""
    try:
        return parse(node.text(expected))
    except ValueError as error:
        raise node.refuse(str(error)) from None


def decode_tls(section: FileNode, read: Callable[[str], bytes]) -> TlsSettings | None:
    """Decode the section; None when it is empty. Raises ConfigError.

    ``read`` gives the contents of a file; relative names start where the configuration is.
    """
    fields = section.fields(_KEYS, "a mapping of TLS settings")
    if not fields:
        return None
    certificate = _pem(fields, "cert", section, read)
    key = _pem(fields, "key", section, read)
    for name, pem in (("cert", certificate), ("key", key)):
        if pem is None:
            raise ConfigError(f"{section.where}: expected {name}_file or {name}")
    assert certificate is not None  # noqa: S101 - said above
    assert key is not None  # noqa: S101 - said above
    minimum = _one_of(fields.get("min_version"), _VERSIONS, "TLS12")
    maximum = _one_of(fields.get("max_version"), _VERSIONS, "TLS13")
    if minimum > maximum:
        raise fields["min_version"].refuse(f"at most the max_version {maximum}")
    client_auth = _decode_client_auth(fields.get("client_auth_type"))
    client_ca = _pem(fields, "client_ca", section, read)
    if (client_ca is None) != (client_auth is ClientAuth.NONE):
        raise ConfigError(
            f"{section.where}: expected both a client CA and a client_auth_type that uses it"
        )
    preference = fields.get("prefer_server_cipher_suites")
    return TlsSettings(
        certificate=certificate,
        key=key,
        client_auth=client_auth,
        client_ca=client_ca,
        allowed_sans=_decode_sans(fields.get("client_allowed_sans"), client_auth),
        minimum=minimum,
        maximum=maximum,
        ciphers=_decode_ciphers(fields.get("cipher_suites"), minimum),
        server_preference=True if preference is None else flag(preference),
        curve=_decode_curve(fields.get("curve_preferences")),
    )


def _pem(
    fields: dict[str, FileNode], name: str, section: FileNode, read: Callable[[str], bytes]
) -> Pem | None:
    inline = _text(fields.get(name))
    file = _text(fields.get(f"{name}_file"))
    if inline and file:
        raise ConfigError(f"{section.where}: expected either {name} or {name}_file, found both")
    if inline:
        return Pem(inline.encode(), fields[name].where)
    if not file:
        return None
    node = fields[f"{name}_file"]
    path = os.path.join(os.path.dirname(node.file), file)
    try:
        return Pem(read(path), f"{node.where}: {path}")
    except ConfigError as error:
        raise ConfigError(f"{node.where}: {error}") from None


def _text(node: FileNode | None) -> str:
    return "" if node is None or node.is_null else node.text("a text")


def _one_of(node: FileNode | None, known: tuple[str, ...], default: str) -> str:
    text = _text(node)
    if node is None or not text:
        return default
    if text not in known:
        raise node.refuse(f"one of {', '.join(known)}")
    return text


def _decode_client_auth(node: FileNode | None) -> ClientAuth:
    known = tuple(policy.value for policy in ClientAuth)
    if node is not None and node.text("a client_auth_type") in _UNVERIFIED:
        raise node.refuse(
            f"one of {', '.join(known)}: a certificate that is asked for is always verified"
        )
    return ClientAuth(_one_of(node, known, ClientAuth.NONE.value))


def _decode_sans(node: FileNode | None, client_auth: ClientAuth) -> frozenset[str]:
    if node is None or node.is_null:
        return frozenset()
    if client_auth is not ClientAuth.REQUIRED:
        raise ConfigError(
            f"{node.where}: expected client_auth_type: {ClientAuth.REQUIRED.value} with it"
        )
    names = frozenset(item.text("a name") for item in node.items("a list of names"))
    if not names:
        raise ConfigError(f"{node.where}: found an empty list, which would let nobody in")
    return names


def _decode_ciphers(node: FileNode | None, minimum: str) -> tuple[str, ...]:
    if node is None or node.is_null:
        return ()
    names = [item.text("a cipher suite") for item in node.items("a list of cipher suites")]
    known = (*_CIPHERS, *_TLS13_CIPHERS)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{node.where}: unknown cipher suite {quoted(name)}{suggestion(name, known)}"
            )
    ciphers = tuple(_CIPHERS[name] for name in names if name in _CIPHERS)
    if names and not ciphers and minimum == "TLS12":
        raise ConfigError(
            f"{node.where}: expected a suite of TLS 1.2 among them, or else min_version: TLS13"
        )
    return ciphers


def _decode_curve(node: FileNode | None) -> str:
    if node is None or node.is_null:
        return ""
    names = [item.text("a curve") for item in node.items("a list of curves")]
    for name in names:
        if name not in _CURVES:
            raise ConfigError(
                f"{node.where}: unknown curve {quoted(name)}{suggestion(name, _CURVES)}"
            )
    if len(names) > 1:
        raise ConfigError(
            f"{node.where}: found {len(names)} curves, expected one: "
            "an order of preference cannot be given here"
        )
    return _CURVES[names[0]] if names else ""
