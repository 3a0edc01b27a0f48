"""Sockets to listen on: opened for an address, or handed over by systemd."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from nvmeof_exporter.config import ConfigError, ListenAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

    from nvmeof_exporter.config import Config

__all__ = ["bound_address", "open_listeners"]

_BACKLOG = 128
_NO_IPV6 = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}

#: Where systemd puts the descriptors it hands over (sd_listen_fds(3)).
_FIRST_SYSTEMD_DESCRIPTOR = 3
_SYSTEMD_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def open_listeners(config: Config, environ: MutableMapping[str, str]) -> list[socket.socket]:
    """Listening sockets as configured. Raises ConfigError when one cannot be had.

    Takes systemd's variables out of ``environ`` in any case: they are meant
    for this process alone, and the HTTP server would otherwise take descriptor
    3 for its socket.
    """
    handed_over = {name: environ.pop(name, "") for name in _SYSTEMD_VARIABLES}
    if config.web_systemd_socket:
        return _systemd_listeners(handed_over["LISTEN_PID"], handed_over["LISTEN_FDS"])
    return _all_or_none(map(_listen, config.web_listen_address))


def bound_address(listener: socket.socket) -> ListenAddress:
    """The address a socket really listens on: with the port the kernel chose for 0."""
    host, port = listener.getsockname()[:2]
    return ListenAddress(host, port)


def _listen(address: ListenAddress) -> socket.socket:
    try:
        return _listen_on(address) if address.host else _listen_everywhere(address.port)
    except OSError as error:
        raise ConfigError(
            f"--web.listen-address: cannot listen on {address}: {_reason(error)}"
        ) from None


def _reason(error: OSError) -> str:
    """The kernel's or the resolver's words, without what Python adds to some of them."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)


def _listen_everywhere(port: int) -> socket.socket:
    """IPv6 and IPv4 with one socket; IPv4 alone where the host has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
            )
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)


def _listen_on(address: ListenAddress) -> socket.socket:
    """The first address of a host name, IPv4 before IPv6 as other exporters do."""
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, socket_address = min(found, key=lambda info: info[0])
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket_address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _systemd_listeners(pid: str, count: str) -> list[socket.socket]:
    if pid != str(os.getpid()) or not count.isdecimal() or int(count) == 0:
        raise ConfigError(
            "--web.systemd-socket: systemd has handed no socket over "
            "(LISTEN_PID and LISTEN_FDS are not set for this process)"
        )
    first = _FIRST_SYSTEMD_DESCRIPTOR
    return _all_or_none(map(_adopt, range(first, first + int(count))))


def _all_or_none(sockets: Iterable[socket.socket]) -> list[socket.socket]:
    """The sockets as they come; where one fails, those before it are closed."""
    with ExitStack() as opened:
        listeners = [opened.enter_context(listener) for listener in sockets]
        opened.pop_all()
    return listeners


def _adopt(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)  # noqa: FBT003
        listener = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError(
            f"--web.systemd-socket: descriptor {descriptor} is no socket: {error.strerror}"
        ) from None
    if not _is_tcp_listener(listener):
        listener.close()
        raise ConfigError(
            f"--web.systemd-socket: descriptor {descriptor} is no listening TCP socket"
        )
    return listener


def _is_tcp_listener(candidate: socket.socket) -> bool:
    return candidate.family in {socket.AF_INET, socket.AF_INET6} and bool(
        candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    )
