"""Replaces what names people's machines and storage, everywhere in a bundle alike.

Names that follow a form (NQNs, addresses, UUIDs, WWNs) are found by it wherever they
stand. Serial numbers, host names and NQNs that keep to no form are learnt first, from the
files that hold them. Equal names have equal stand-ins and different ones different ones,
each of the same form.
"""

from __future__ import annotations

import ipaddress
import json
import re
from typing import TYPE_CHECKING

from nvmeof_exporter.capture.addresses import StandInAddresses
from nvmeof_exporter.sources import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Redactor"]

_HEX = "[0-9A-Fa-f]"
_NQN = r"nqn\.\d{4}-\d{2}\.[^\s\"'\\,;{}<>()|\x00-\x1f\x7f]+"
_DOTTED = r"\d{1,3}(?:\.\d{1,3}){3}"
_UUID = rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"

#: The forms, most particular first; a group's name is that of the method that replaces it.
_FORMS = (
    rf"(?P<nqn>{_NQN})",
    # nvme_core's own WWID, where a namespace has none: vendor, serial, model, NSID (wwid_show)
    rf"(?P<wwid>\bnvme\.{_HEX}{{4}}-{_HEX}+-{_HEX}+-{_HEX}{{8}}\b)",
    rf"(?P<eui>\beui\.{_HEX}{{16}}(?:{_HEX}{{16}})?\b)",
    rf"(?P<uuid>(?<!{_HEX}){_UUID}(?!{_HEX}))",
    rf"(?P<wwn>\b0x{_HEX}{{16}}\b)",
    rf"(?P<mac>(?<![:\w]){_HEX}{{2}}(?:(?::{_HEX}{{2}}){{19}}|(?::{_HEX}{{2}}){{5}})(?![:\w]))",
    rf"(?P<guid>(?<![:\w]){_HEX}{{4}}(?::{_HEX}{{4}}){{3}}(?![:\w]))",
    rf"(?P<ipv6>(?<![:.\w])(?:{_HEX}{{0,4}}:){{2,7}}(?:{_DOTTED}|{_HEX}{{0,4}})(?:/\d+)?(?![:\w]))",
    rf"(?P<ipv4>(?<!\d)(?<!\d\.){_DOTTED}(?:/\d{{1,2}})?(?!\d)(?!\.\d))",
)

_FORM = re.compile("|".join(_FORMS))

#: Files that hold an NQN, and those whose text may look like an address and is none.
_NQN_FILES = frozenset({"hostnqn", "subsysnqn"})
_VERSION_FILES = frozenset({"firmware_rev", "fw_ver", "hw_rev", "version"})

#: Well-known names that tell nothing.
_KEPT_NQNS = frozenset({"nqn.2014-08.org.nvmexpress.discovery"})
_UUID_NQN = re.compile(rf"(nqn\.2014-08\.org\.nvmexpress:uuid:)({_UUID})")
_SENTENCE = ".:!?"

#: A text that is short or has no digit would be found in words, and a short number in values:
#: such a serial number is replaced where it stands alone in quotes, as it does in metrics.
_SHORTEST_IN_TEXT = 6
_SHORTEST_NUMBER_IN_TEXT = 8

#: A host of a shorter name would be found in everything.
_SHORTEST_HOST = 2


class Redactor:
    """Learns names, then replaces them; ``key`` decides which address stands for which."""

    def __init__(self, key: bytes) -> None:
        self._addresses = StandInAddresses(key)
        self._numbers: dict[str, dict[str, int]] = {}
        self._learnt: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._kept: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._known: dict[bytes, bytes] = {}

    def learn(self, name: str, raw: bytes) -> None:
        """Take note of what a file of ``/sys`` called ``name`` holds, where that is a name."""
        text = decode.padded_text(raw)
        if name == "serial" and text:
            self._learn(raw, self._serial(text), anywhere=_is_distinct(text))
        elif _is_nqn(name, raw) and not re.fullmatch(_NQN, text):
            self._learn(raw, self._nqn(text), anywhere=True)
        elif name in _VERSION_FILES and text:
            self._kept.add(text)

    def learn_hosts(self, names: Iterable[str]) -> None:
        """Take note of names of hosts and switches; they are replaced outside of ``/sys``."""
        for name in names:
            for form in (name, name.partition(".")[0]):
                if len(form) >= _SHORTEST_HOST and form != "localhost" and not _FORM.search(form):
                    self._hosts[form] = self._of_kind("host", form, "host-{}".format)
        self._pattern = None

    def sysfs(self, name: str, raw: bytes) -> bytes:
        """Return what a file of ``/sys`` called ``name`` holds, without names."""
        body = raw.strip(b"\0 \t\r\n")
        text = decode.padded_text(raw)
        if name == "serial" and text:
            return raw.replace(body, self._serial(text).encode())
        if _is_nqn(name, raw):
            return raw.replace(body, self._nqn(text).encode())
        return raw if name in _VERSION_FILES else self._remembered(raw)

    def place(self, raw: bytes) -> bytes:
        """Return a file name or a link's target without names."""
        return b"/".join(map(self._remembered, raw.split(b"/")))

    def _remembered(self, raw: bytes) -> bytes:
        """Of tens of thousands of names and values in a tree few are different."""
        if raw not in self._known:
            self._known[raw] = self._replaced(raw, _FORM)
        return self._known[raw]

    def text(self, raw: bytes) -> bytes:
        """Return a text from elsewhere without names: metrics, JSON, logs."""
        if self._pattern is None:
            self._pattern = self._compiled()
        return self._replaced(raw, self._pattern)

    def _replaced(self, raw: bytes, pattern: re.Pattern[str]) -> bytes:
        text = raw.decode("utf-8", "surrogateescape")
        return pattern.sub(self._replace, text).encode("utf-8", "surrogateescape")

    def _compiled(self) -> re.Pattern[str]:
        texts = sorted({*self._learnt, *self._hosts, *self._kept}, key=len, reverse=True)
        if not texts:
            return _FORM
        choices = "|".join(map(re.escape, texts))
        literal = rf"(?P<literal>(?<![A-Za-z0-9])(?:{choices})(?![A-Za-z0-9]))"
        return re.compile("|".join((literal, *_FORMS)))

    def _replace(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        text = match[0]
        if kind == "literal":
            return self._learnt.get(text) or self._hosts.get(text) or text
        replace: Callable[[str], str] = getattr(self, f"_{kind}")
        return replace(text)

    def _learn(self, raw: bytes, stand_in: str, *, anywhere: bool) -> None:
        """Remember a name in every form in which it may stand somewhere."""
        body = raw.strip(b"\0 \t\r\n")
        for text in (decode.padded_text(raw), body.decode("utf-8", "surrogateescape")):
            exposed = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            for form in (text, exposed, json.dumps(text)[1:-1], ascii(text)[1:-1]):
                if anywhere:
                    self._learnt[form] = stand_in
                self._learnt[f'"{form}"'] = f'"{stand_in}"'
        self._pattern = None

    def _number(self, kind: str, name: str) -> int:
        """Number the names of a kind from 1."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(name, len(numbers) + 1)

    def _of_kind(self, kind: str, name: str, form: Callable[[int], str]) -> str:
        return form(self._number(kind, name))

    @staticmethod
    def _nqn_stand_in(number: int) -> str:
        return f"nqn.2014-08.org.example:name-{number}"

    def _serial(self, name: str) -> str:
        return self._of_kind("serial", name, "SERIAL{:04d}".format)

    def _nqn(self, text: str) -> str:
        name = text.rstrip(_SENTENCE)
        if name in _KEPT_NQNS:
            return text
        by_uuid = _UUID_NQN.fullmatch(name)
        if by_uuid:
            # A host's NQN and its ID are compared: both must become the same UUID.
            stand_in = by_uuid[1] + self._uuid(by_uuid[2])
        else:
            stand_in = self._of_kind("nqn", name, self._nqn_stand_in)
        return stand_in + text[len(name) :]

    def _uuid(self, text: str) -> str:
        if not text.strip("0-"):
            return text
        return f"00000000-0000-4000-8000-{self._number('uuid', text.lower()):012x}"

    def _wwid(self, text: str) -> str:
        vendor, serial, model, nsid = text.split("-")
        name = decode.padded_text(bytes.fromhex(serial)) if len(serial) % 2 == 0 else serial
        return f"{vendor}-{self._serial(name).encode().hex()}-{model}-{nsid}"

    def _eui(self, text: str) -> str:
        number = self._number("eui", text.lower())
        return f"eui.02{number:0{len(text) - len('eui.02')}x}"

    def _wwn(self, text: str) -> str:
        # Of the form that companies hand out themselves (NAA 2): what it named, no more.
        return f"0x20{self._number('wwn', text.lower()):014x}"

    def _mac(self, text: str) -> str:
        octets = text.split(":")
        if len(set(octets)) == 1:
            return text  # nobody's, or everybody's
        number = self._number("mac", text.lower())
        stand_in = f"02{number:0{2 * len(octets) - 2}x}"
        return ":".join(stand_in[at : at + 2] for at in range(0, len(stand_in), 2))

    def _guid(self, text: str) -> str:
        if not text.strip("0:"):
            return text
        stand_in = f"02{self._number('guid', text.lower()):014x}"
        return ":".join(stand_in[at : at + 4] for at in range(0, len(stand_in), 4))

    def _ipv4(self, text: str) -> str:
        return self._address(text)

    def _ipv6(self, text: str) -> str:
        return self._address(text)

    def _address(self, text: str) -> str:
        """Replace an address or a network; text that only looks like one stays."""
        bare, slash, length = text.partition("/")
        try:
            address = ipaddress.ip_address(bare)
            network = ipaddress.ip_network(text) if slash else None
        except ValueError:
            # An address with the length of its network, or nothing of the kind.
            return self._address(bare) + slash + length if slash else text
        stand_in = self._addresses.stand_in(address)
        if network is not None and network.prefixlen < network.max_prefixlen:
            shift = network.max_prefixlen - network.prefixlen
            stand_in = type(address)(int(stand_in) >> shift << shift)
        exploded = bare == address.exploded and address.version == 6  # noqa: PLR2004
        shown = stand_in.exploded if exploded else _like(bare, stand_in)
        return shown + slash + length


def _is_nqn(name: str, raw: bytes) -> bool:
    """Whether a file holds an NQN; ``subsystem_nqn`` knows what else the kernel may print."""
    return name in _NQN_FILES and bool(decode.text(raw).strip()) and bool(decode.subsystem_nqn(raw))


def _is_distinct(name: str) -> bool:
    """Whether a serial number can hardly be anything else where it stands in a text."""
    if name.isdecimal():
        return len(name) >= _SHORTEST_NUMBER_IN_TEXT
    return len(name) >= _SHORTEST_IN_TEXT and any(map(str.isdecimal, name))


def _like(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Write an address as its original was: IPv4 within IPv6 in its own notation."""
    if "." in text and isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return f"::ffff:{address.ipv4_mapped}"
    return str(address)
