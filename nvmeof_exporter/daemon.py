"""The daemon: puts the parts together, obeys signals, and takes everything down again."""

from __future__ import annotations

import gc
import os
import signal
import socket
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, cast

import structlog

from nvmeof_exporter import __version__
from nvmeof_exporter.allocator import spare_memory
from nvmeof_exporter.config import ConfigError, reload
from nvmeof_exporter.config.options import OPTIONS
from nvmeof_exporter.exposition.api import api_routes
from nvmeof_exporter.exposition.collector import StateCollector
from nvmeof_exporter.exposition.listeners import open_listeners
from nvmeof_exporter.exposition.published import CollectorStatus, Published, PublishedState
from nvmeof_exporter.exposition.renderings import Renderings
from nvmeof_exporter.exposition.server import WebServer
from nvmeof_exporter.exposition.web import Application
from nvmeof_exporter.logs import configure as configure_logs
from nvmeof_exporter.monitor.expectations import Expectation, Expectations
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.notify import ServiceManager
from nvmeof_exporter.policy import preset_policy
from nvmeof_exporter.poller import Poller
from nvmeof_exporter.remembering import MemoryKeeper
from nvmeof_exporter.slow import SlowSources, open_sources
from nvmeof_exporter.sources.events import SourceUnavailable
from nvmeof_exporter.sources.netlink import Links
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import (
    RESERVED_DESCRIPTORS,
    Reader,
    raise_descriptor_limit,
)
from nvmeof_exporter.status_page.routes import status_routes
from nvmeof_exporter.view.build import Where
from nvmeof_exporter.view.live import LiveView
from nvmeof_exporter.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvmeof_exporter.config import Config
    from nvmeof_exporter.exposition.web_security import WebSecurity
    from nvmeof_exporter.model import Controller
    from nvmeof_exporter.slow import HeardLinks
    from nvmeof_exporter.sources.events import EventSource

__all__ = ["serve"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

#: Options that need a restart: sockets, trees and sources are opened once.
_FIXED = (
    "web_listen_address",
    "web_telemetry_path",
    "web_systemd_socket",
    "web_max_requests",
    "web_config_file",
    "path_sysfs",
    "path_procfs",
    "path_kmsg",
    "path_state",
    "collector_udev",
    "collector_netlink",
    "collector_kmsg",
    "collector_pcie",
    "collector_rdma",
    "collector_rdma_device_include",
    "collector_rdma_device_exclude",
    "collector_links",
    "collector_lldp",
)

#: Of the descriptors of this process, one in so many is for the counters of RDMA ports.
_COUNTERS_SHARE = 4


def serve(config: Config, open_links: Callable[[], HeardLinks] = Links) -> int:
    """Run the exporter until SIGTERM or SIGINT. Returns the exit status.

    Must run in the main thread, where signals arrive. ``open_links`` opens what the
    collector ``netlink`` hears: rtnetlink, or what stands for it beside another tree.

    Raises:
        ConfigError: something the configuration names cannot be used.

    """
    _refuse_unusable_tree(config)
    security = _open_security(config)
    listeners = open_listeners(config, os.environ)
    manager = ServiceManager(os.environ)
    spare_memory()
    descriptors = raise_descriptor_limit()
    _log.info("starting", version=__version__, sysfs=config.path_sysfs)
    for_counters = descriptors // _COUNTERS_SHARE
    reader = Reader(_tell_unreadable, descriptors - for_counters - RESERVED_DESCRIPTORS)
    source = NvmeSource(reader, config.path_sysfs, pcie=config.collector_pcie)
    _tell_without_driver(config)
    keeper = MemoryKeeper(config.path_state)
    event_sources, unavailable = _open_event_sources(config, open_links)
    sources = open_sources(config, _heard_links(event_sources), _tell_unreadable, for_counters)
    monitor = Monitor(
        config.stall_threshold,
        Expectations(_expected(config), config.superseded_expiry, keeper.load()),
        sources.paths.netdev_of,
    )
    monitor.log_readable = any(s.name == "kmsg" for s in event_sources)
    published = Published(PublishedState(monitor, config.poll_interval))
    worker = Worker(config.poll_slow_interval, config.poll_slow_deadline)
    slow = SlowSources(worker, sources, lambda: _controllers(published))
    poller = Poller(config, source, reader, published, event_sources, keeper)
    poller.inform(slow)
    poller.report_to(manager)
    if security is not None:
        poller.include("web", lambda: security.works)
    with published.write() as state:
        state.surroundings = slow.surroundings
        state.policy = config.policy or preset_policy()
        for name in unavailable:
            state.collectors[name] = CollectorStatus(success=False)
    application = _application(config, published, poller)
    server = WebServer(application, listeners, config.web_max_requests, security)
    keeper.start()
    with closing(_Signals()) as signals, _settled():
        poller.watch(
            signals.wake,
            signals.dispatcher(
                poller.stop, _Reloader(config, poller, published, worker, manager), server.reload
            ),
        )
        server.start()
        try:
            poller.run()
        finally:
            _log.info("stopping")
            manager.stopping()
            server.stop()
            worker.stop()
            with published.write() as state:
                keeper.synchronize(state.monitor.expectations)
            keeper.stop()
            for event_source in event_sources:
                event_source.close()
            source.close()
            manager.close()
    return 0


def _application(config: Config, published: Published, poller: Poller) -> Application:
    """Everything that is answered over HTTP."""
    where = Where(os.uname().nodename, config.path_sysfs)
    application = Application(
        Renderings(StateCollector(published), lambda: published.snapshot),
        health=poller.health,
        ready=poller.ready,
        observe_scrape=published.observe_scrape,
        telemetry_path=config.web_telemetry_path,
        max_requests=config.web_max_requests,
    )
    live = LiveView(published, where, poller.health)
    application.add(api_routes(live, published))
    application.add(status_routes(live.view, config.web_telemetry_path))
    return application


def _tell_without_driver(config: Config) -> None:
    classes = ("nvme", "nvme-subsystem")
    if not any(os.path.isdir(f"{config.path_sysfs}/class/{name}") for name in classes):
        _log.warning("no NVMe devices: the kernel shows no NVMe class", sysfs=config.path_sysfs)


def _open_security(config: Config) -> WebSecurity | None:
    if not config.web_config_file:
        return None
    from nvmeof_exporter.exposition.web_security import WebSecurity  # noqa: PLC0415

    return WebSecurity(config.web_config_file)


def _refuse_unusable_tree(config: Config) -> None:
    """Raise ConfigError for no tree, or one that was captured and is not whole any more."""
    if not config.this_machine:
        from nvmeof_exporter.capture.verify import refuse_broken  # noqa: PLC0415

        taken = refuse_broken(config.path_sysfs)
        if taken is not None:
            _log.warning(
                "the tree is a capture and stands still: so seem requests that were in flight",
                taken=taken,
            )
    if not os.path.isdir(config.path_sysfs):
        raise ConfigError(f"--path.sysfs: {config.path_sysfs!r} is no directory")


@contextmanager
def _settled() -> Iterator[None]:
    """Spare what is here now, modules and devices, from being looked at as possible garbage."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _heard_links(sources: list[EventSource]) -> HeardLinks | None:
    """Return rtnetlink, where it is heard."""
    heard = (source for source in sources if source.name == Links.name)
    return cast("HeardLinks | None", next(heard, None))


def _controllers(published: Published) -> list[Controller]:
    """List the paths of the newest snapshot; waits for nothing."""
    snapshot = published.snapshot
    subsystems = snapshot.subsystems if snapshot is not None else ()
    return [controller for subsystem in subsystems for controller in subsystem.controllers]


def _tell_unreadable(path: str, reason: str) -> None:
    _log.warning("cannot be read; its value is left out", path=path, reason=reason)


def _expected(config: Config) -> dict[str, Expectation]:
    return {e.nqn: Expectation(e.count, e.paths) for e in config.expected}


def _open_event_sources(
    config: Config, open_links: Callable[[], HeardLinks]
) -> tuple[list[EventSource], list[str]]:
    """Open the sources that are asked for; returns them and the names of those that cannot be."""
    makers: dict[str, Callable[[], EventSource]] = {
        "udev": _open_udev,
        "netlink": open_links,
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

    def __init__(
        self,
        config: Config,
        poller: Poller,
        published: Published,
        worker: Worker,
        manager: ServiceManager,
    ) -> None:
        self._config = config
        self._poller = poller
        self._published = published
        self._worker = worker
        self._manager = manager

    def __call__(self) -> None:
        with self._manager.reloading():
            self._reload()

    def _reload(self) -> None:
        try:
            config = reload(self._config)
        except ConfigError as error:
            _log.error("configuration not reloaded, the old one stays", reason=str(error))
            return
        fixed = [
            option.name
            for option in OPTIONS
            if option.field in _FIXED
            and getattr(config, option.field) != getattr(self._config, option.field)
        ]
        if fixed:
            _log.warning("changed settings that need a restart", settings=", ".join(fixed))
        self._config = config
        configure_logs(config.log_level, config.log_format)
        self._poller.configure(config)
        self._worker.configure(config.poll_slow_interval, config.poll_slow_deadline)
        with self._published.write() as state:
            state.policy = config.policy or preset_policy()
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
        self, stop: Callable[[], None], *reloads: Callable[[], None]
    ) -> Callable[[], None]:
        """Return what to call when the socket is readable."""

        def dispatch() -> None:
            numbers = set(self.wake.recv(64))
            if numbers & {signal.SIGTERM, signal.SIGINT}:
                stop()
            elif signal.SIGHUP in numbers:
                for reload_ in reloads:
                    reload_()

        return dispatch


def _ignore(_number: int, _frame: object) -> None:
    """Let the signal interrupt the wait; the byte on the socket says the rest."""
