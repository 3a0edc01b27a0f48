"""The daemon: puts the parts together, obeys signals, and takes everything down again."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import structlog

from nvmeof_exporter import __version__
from nvmeof_exporter.config import ConfigError, reload
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.listeners import open_listeners
from nvmeof_exporter.exposition.published import CollectorStatus, Published, PublishedState
from nvmeof_exporter.exposition.server import WebServer
from nvmeof_exporter.exposition.web import Application
from nvmeof_exporter.logs import configure as configure_logs
from nvmeof_exporter.monitor.expectations import Expectation, Expectations
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.poller import Poller
from nvmeof_exporter.remembering import MemoryKeeper
from nvmeof_exporter.sources.events import SourceUnavailable
from nvmeof_exporter.sources.interfaces import PathInterfaces
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import Reader, raise_descriptor_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.config import Config
    from nvmeof_exporter.sources.events import EventSource

__all__ = ["serve"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

#: Options that need a restart: sockets, trees and sources are opened once.
_FIXED = (
    "web_listen_address",
    "web_telemetry_path",
    "web_systemd_socket",
    "web_max_requests",
    "path_sysfs",
    "path_procfs",
    "path_kmsg",
    "path_state",
    "collector_udev",
    "collector_netlink",
    "collector_kmsg",
    "collector_pcie",
)


def serve(config: Config) -> int:
    """Run the exporter until SIGTERM or SIGINT. Returns the exit status.

    Must run in the main thread, where signals arrive.

    Raises:
        ConfigError: something the configuration names cannot be used.

    """
    if not os.path.isdir(config.path_sysfs):
        raise ConfigError(f"--path.sysfs: {config.path_sysfs!r} is no directory")
    listeners = open_listeners(config, os.environ)
    raise_descriptor_limit()
    _log.info("starting", version=__version__, sysfs=config.path_sysfs)
    reader = Reader(_tell_unreadable)
    source = NvmeSource(reader, config.path_sysfs, pcie=config.collector_pcie)
    classes = ("nvme", "nvme-subsystem")
    if not any(os.path.isdir(f"{config.path_sysfs}/class/{name}") for name in classes):
        _log.warning("no NVMe devices: the kernel shows no NVMe class", sysfs=config.path_sysfs)
    keeper = MemoryKeeper(config.path_state)
    event_sources, unavailable = _open_event_sources(config)
    netdev_of = PathInterfaces(_address_owner(event_sources))
    monitor = Monitor(
        config.stall_threshold,
        Expectations(_expected(config), config.superseded_expiry, keeper.load()),
        netdev_of,
    )
    monitor.log_readable = any(s.name == "kmsg" for s in event_sources)
    published = Published(PublishedState(monitor, config.poll_interval, netdev_of))
    poller = Poller(config, source, reader, published, event_sources, keeper)
    with published.write() as state:
        for name in unavailable:
            state.collectors[name] = CollectorStatus(success=False)
    application = Application(
        StateCollector(published),
        health=poller.health,
        ready=poller.ready,
        observe_scrape=published.observe_scrape,
        telemetry_path=config.web_telemetry_path,
        max_requests=config.web_max_requests,
    )
    server = WebServer(application, listeners, config.web_max_requests)
    keeper.start()
    with closing(_Signals()) as signals:
        poller.watch(
            signals.wake, signals.dispatcher(poller.stop, _Reloader(config, poller, published))
        )
        server.start()
        try:
            poller.run()
        finally:
            _log.info("stopping")
            server.stop()
            with published.write() as state:
                keeper.synchronize(state.monitor.expectations)
            keeper.stop()
            for event_source in event_sources:
                event_source.close()
            source.close()
    return 0


def _address_owner(sources: list[EventSource]) -> Callable[[str], str]:
    """Return what names the interface of an address: rtnetlink, where it is heard."""
    owners = [source.interface for source in sources if isinstance(source, Links)]
    return owners[0] if owners else lambda _address: ""


def _tell_unreadable(path: str, reason: str) -> None:
    _log.warning("cannot be read; its value is left out", path=path, reason=reason)


def _expected(config: Config) -> dict[str, Expectation]:
    return {e.nqn: Expectation(e.count, e.paths) for e in config.expected}


def _open_event_sources(config: Config) -> tuple[list[EventSource], list[str]]:
    """Open the sources that are asked for; returns them and the names of those that cannot be."""
    makers: dict[str, Callable[[], EventSource]] = {
        "udev": _open_udev,
        "netlink": Links,
        "kmsg": lambda: _open_kmsg(config.path_kmsg),
    }
    opened = []
    unavailable = []
    for name, make in makers.items():
        if not config.collects(name):
            continue
        try:
            opened.append(make())
        except SourceUnavailable as reason:
            unavailable.append(name)
            _log.warning("event source not available", collector=name, reason=str(reason))
    return opened, unavailable


def _open_udev() -> EventSource:
    from nvmeof_exporter.sources.uevents import Uevents  # noqa: PLC0415

    return Uevents()


def _open_kmsg(path: str) -> EventSource:
    from nvmeof_exporter.sources.kmsg import KernelLog  # noqa: PLC0415

    return KernelLog(path)


class _Reloader:
    """Takes over a changed configuration; a bad one changes nothing."""

    def __init__(self, config: Config, poller: Poller, published: Published) -> None:
        self._config = config
        self._poller = poller
        self._published = published

    def __call__(self) -> None:
        try:
            config = reload(self._config)
        except ConfigError as error:
            _log.error("configuration not reloaded, the old one stays", reason=str(error))
            return
        fixed = [name for name in _FIXED if getattr(config, name) != getattr(self._config, name)]
        if fixed:
            names = ", ".join(name.replace("_", ".", 1).replace("_", "-") for name in fixed)
            _log.warning("changed settings that need a restart", settings=names)
        self._config = config
        configure_logs(config.log_level, config.log_format)
        self._poller.configure(config)
        with self._published.write() as state:
            state.monitor.configure(config.stall_threshold)
            state.monitor.expectations.configure(_expected(config), config.superseded_expiry)
        _log.info("configuration reloaded", file=config.config_file)


class _Signals:
    """Turns signals into bytes on a socket that the poll loop watches."""

    _WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self) -> None:
        self.wake, self._sender = socket.socketpair()
        for end in (self.wake, self._sender):
            end.settimeout(0.0)
        self._previous = [signal.signal(number, _ignore) for number in self._WATCHED]
        self._previous_wakeup = signal.set_wakeup_fd(
            self._sender.fileno(), warn_on_full_buffer=False
        )

    def close(self) -> None:
        """Give the signals back to those who had them."""
        signal.set_wakeup_fd(self._previous_wakeup)
        for number, handler in zip(self._WATCHED, self._previous, strict=True):
            signal.signal(number, handler)
        self.wake.close()
        self._sender.close()

    def dispatcher(
        self, stop: Callable[[], None], reload_: Callable[[], None]
    ) -> Callable[[], None]:
        """Return what to call when the socket is readable."""

        def dispatch() -> None:
            numbers = set(self.wake.recv(64))
            if numbers & {signal.SIGTERM, signal.SIGINT}:
                stop()
            elif signal.SIGHUP in numbers:
                reload_()

        return dispatch


def _ignore(_number: int, _frame: object) -> None:
    """Let the signal interrupt the wait; the byte on the socket says the rest."""
