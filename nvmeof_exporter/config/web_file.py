"""The file of ``--web.config.file``: TLS, users, headers and a rate limit.

The format is that of Prometheus' exporter-toolkit, so that one file serves all
exporters of a host. What this program cannot do is refused by name: protection
that was asked for is never silently missing. Secrets are in no message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.config.errors import ConfigError, quoted
from nvmeof_exporter.config.file import FileNode, compose, read_regular_file
from nvmeof_exporter.config.values import integer, parse_duration
from nvmeof_exporter.config.web_tls import decode_tls, flag, parsed

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from nvmeof_exporter.config.web_tls import TlsSettings

__all__ = ["FileState", "RateLimit", "WebSettings", "read_web_file"]

_SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")

#: The headers that may be added, with the values allowed where not every one is.
_HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
_BURST = integer(0, 1_000_000)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

#: What ``htpasswd -B`` and others make; bcrypt's own alphabet.
_BCRYPT = re.compile(r"\$2[abxy]?\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")


class FileState(NamedTuple):
    """Tells one version of a file from another."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, state: os.stat_result) -> FileState:
        """Pick from what ``stat(2)`` says."""
        return cls(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket: ``burst`` requests at once, one more every ``interval`` seconds."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What the file asks for; an empty one asks for nothing.

    ``users`` holds bcrypt hashes by name, ``files`` the state that each file had when it
    was read: the configuration's own and those it names.
    """

    tls: TlsSettings | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()
    rate_limit: RateLimit | None = None
    files: Mapping[str, FileState] = field(default_factory=dict)


def read_web_file(path: str) -> WebSettings:
    """Read and decode the file and those it names. Raises ConfigError with place and reason."""
    files: dict[str, FileState] = {}

    def read(name: str) -> bytes:
        data, state = read_regular_file(name)
        files[name] = FileState.of(state)
        return data

    root = compose(read(path), path)
    if root is None:
        return WebSettings(files=files)
    sections = FileNode(root, path, "").fields(_SECTIONS, "a mapping of sections")
    tls = sections.get("tls_server_config")
    users = sections.get("basic_auth_users")
    http = sections.get("http_server_config")
    limit = sections.get("rate_limit")
    return WebSettings(
        tls=decode_tls(tls, read) if tls is not None else None,
        users=_decode_users(users) if users is not None else {},
        headers=_decode_http(http) if http is not None else (),
        rate_limit=_decode_rate_limit(limit) if limit is not None else None,
        files=files,
    )


def _decode_users(section: FileNode) -> dict[str, bytes]:
    users: dict[str, bytes] = {}
    for key, value in section.entries("a mapping of user names to bcrypt hashes"):
        name = key.name.removeprefix(f"{section.name}.")
        if not name or ":" in name:
            raise ConfigError(f"{key.place}: {quoted(name)} is no name for basic authentication")
        hashed = value.text("a bcrypt hash")
        if not _BCRYPT.fullmatch(hashed):
            # Somebody may have written the password itself.
            raise ConfigError(f"{value.where}: expected a bcrypt hash, as htpasswd -nB makes it")
        users[name] = hashed.encode()
    return users


def _decode_http(section: FileNode) -> tuple[tuple[str, str], ...]:
    fields = section.fields(("http2", "headers"), "a mapping with http2 and headers")
    http2 = fields.get("http2")
    if http2 is not None and flag(http2):
        raise http2.refuse("false: HTTP/2 is not spoken here")
    if "headers" not in fields:
        return ()
    found = fields["headers"].fields(tuple(_HEADERS), "a mapping of header names to values")
    headers = ((name, _decode_header(node, _HEADERS[name])) for name, node in found.items())
    return tuple((name, value) for name, value in headers if value)


def _decode_header(node: FileNode, allowed: tuple[str, ...]) -> str:
    if node.is_null:
        return ""
    value = node.text("a text")
    if not _HEADER_VALUE.fullmatch(value):
        raise node.refuse("printable ASCII")
    if value and allowed and value.lower() not in allowed:
        raise node.refuse(" or ".join(allowed))
    return value


def _decode_rate_limit(section: FileNode) -> RateLimit | None:
    fields = section.fields(("interval", "burst"), "a mapping with interval and burst")
    interval = 0.0
    if "interval" in fields:
        interval = parsed(fields["interval"], _interval, "a duration")
    burst = parsed(fields["burst"], _BURST.parse, "a number") if "burst" in fields else 0
    if not interval:
        return None
    if not burst:
        raise ConfigError(f"{section.where}: expected a burst of at least 1 with the interval")
    return RateLimit(interval, burst)


def _interval(text: str) -> float:
    return 0.0 if text == "0" else parse_duration(text)
