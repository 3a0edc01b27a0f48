"""Kinds of option values: how a text from a flag, a variable or a file becomes a value.

The same text means the same wherever it comes from. A parser raises ValueError
whose message says what is expected; what was found, and where, is the caller's
to add.
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "FLAG",
    "LISTEN_ADDRESS",
    "OPTIONAL_PATH",
    "PATH",
    "REGEX",
    "SCOPE",
    "URL_PATH",
    "Kind",
    "ListenAddress",
    "choice",
    "duration",
    "format_duration",
    "integer",
    "parse_duration",
    "parse_listen_address",
]

_GREATEST_PORT = 65535

#: Prometheus' duration units, greatest first as they must be written, in milliseconds.
_UNITS = {
    "w": 7 * 24 * 3_600_000,
    "d": 24 * 3_600_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile(
    "".join(rf"(?:(\d+(?:\.\d+)?){unit}(?![a-z]))?" for unit in _UNITS), re.ASCII
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_INTEGER = re.compile(r"\d{1,18}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+")
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?)\]")
_URL_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")
_RESERVED_URL_PATHS = {"/-/healthy", "/-/ready"}

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A kind of value: its name in the help and its parser.

    ``bare`` is what the flag without a value stands for, where it may stand so; there
    is then ``--no-…``, too, which stands for ``off``.
    """

    metavar: str
    parse: Callable[[str], T_co]
    bare: str = ""


class ListenAddress(NamedTuple):
    """Where to listen: ``host`` is ``""`` for every interface, ``port`` 0 for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """The text it is configured with, e.g. ``:10067`` or ``[::1]:10067``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_duration(text: str) -> float:
    """Seconds from a duration as Prometheus writes it: ``100ms``, ``1.5s``, ``1m30s``, ``2h``."""
    if _NUMBER.fullmatch(text):
        raise ValueError(f"a duration with a unit, such as {text}ms or {text}s")
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("a duration such as 100ms, 1.5s, 5s, 1m30s or 2h")
    amounts = zip(match.groups(default="0"), _UNITS.values(), strict=True)
    return float(sum(Decimal(amount) * unit for amount, unit in amounts) / 1000)


def format_duration(seconds: float) -> str:
    """A duration as Prometheus writes it, to the millisecond; ``0s`` for none."""
    rest = round(seconds * 1000)
    text = ""
    for unit, milliseconds in _UNITS.items():
        amount, rest = divmod(rest, milliseconds)
        if amount:
            text += f"{amount}{unit}"
    return text or "0s"


def duration(least: str, most: str) -> Kind[float]:
    """A duration within bounds, both included; the value is in seconds."""
    low, high = parse_duration(least), parse_duration(most)

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if not low <= seconds <= high:
            raise ValueError(f"a duration from {least} to {most}")
        return seconds

    return Kind("DURATION", parse)


def integer(least: int, most: int) -> Kind[int]:
    """A whole number within bounds, both included."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return Kind("NUMBER", parse)


def choice(*allowed: str) -> Kind[str]:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return text

    return Kind("{" + ",".join(allowed) + "}", parse)


def parse_listen_address(text: str) -> ListenAddress:
    """``:port``, ``host:port`` or ``[v6]:port``."""
    host, colon, port = text.rpartition(":")
    if ":" in host:
        ipv6 = _IPV6.fullmatch(host)
        if ipv6 is None:
            raise ValueError("an IPv6 address in brackets, such as [::1]:10067")
        host = ipv6[1]
    elif host and not _HOST.fullmatch(host):
        colon = ""
    if not colon or not _INTEGER.fullmatch(port):
        raise ValueError(":PORT, HOST:PORT or [IPV6]:PORT")
    if int(port) > _GREATEST_PORT:
        raise ValueError(f"a port from 0 to {_GREATEST_PORT}")
    return ListenAddress(host, int(port))


def _parse_flag(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError("true or false")


def _parse_scope(text: str) -> str:
    """``paths``, ``all`` or ``off``; a switch that is on means the first."""
    if text.lower() in _FALSE:
        return "off"
    if text.lower() in _TRUE:
        return "paths"
    if text not in {"paths", "all"}:
        raise ValueError("one of paths, all, off")
    return text


def _parse_regex(text: str) -> re.Pattern[str] | None:
    """A regular expression that has to match the whole name; None for an empty text."""
    try:
        return re.compile(text) if text else None
    except (re.error, OverflowError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"a regular expression ({reason})") from None


def _parse_optional_path(text: str) -> str:
    """A path without trailing or doubled slashes; ``""`` stays empty and means off."""
    if "\0" in text:
        raise ValueError("a path")
    return os.path.normpath(text) if text else ""


def _parse_path(text: str) -> str:
    if not text:
        raise ValueError("a path")
    return _parse_optional_path(text)


def _parse_url_path(text: str) -> str:
    if not _URL_PATH.fullmatch(text):
        raise ValueError("a URL path such as /metrics")
    if text in _RESERVED_URL_PATHS:
        raise ValueError("a URL path that the exporter does not use itself")
    return text


FLAG = Kind("", _parse_flag)
LISTEN_ADDRESS = Kind("ADDRESS", parse_listen_address)
OPTIONAL_PATH = Kind("PATH", _parse_optional_path)
PATH = Kind("PATH", _parse_path)
REGEX = Kind("REGEX", _parse_regex)
SCOPE = Kind("{paths,all}", _parse_scope, bare="paths")
URL_PATH = Kind("URLPATH", _parse_url_path)
