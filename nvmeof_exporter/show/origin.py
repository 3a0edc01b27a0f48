"""Where a view comes from: an exporter that runs, or else the tree itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.capture.verify import refuse_broken
from nvmeof_exporter.client import Exporter, NoAnswer, url_of
from nvmeof_exporter.config import ConfigError
from nvmeof_exporter.config.errors import quoted
from nvmeof_exporter.show.measures import age
from nvmeof_exporter.survey import refuse_untold
from nvmeof_exporter.view.build import Where
from nvmeof_exporter.view.local import LocalView

if TYPE_CHECKING:
    from nvmeof_exporter.config import Config
    from nvmeof_exporter.view.events import EventsView
    from nvmeof_exporter.view.model import NodeView

__all__ = ["Origin", "Shown", "origin_of"]


class Shown(NamedTuple):
    """A view, and where it is from, in words."""

    view: NodeView
    origin: str


@dataclass
class Origin:
    """Gives views.

    ``exporter`` is asked first, None: nobody is. ``required``: it was named, so that no
    other answer will do.
    """

    config: Config
    exporter: Exporter | None
    required: bool
    _local: LocalView | None = None
    _unread: int = 0
    _taken: str | None = None

    def view(self) -> Shown:
        """Ask, or look.

        Raises:
            NoAnswer: the exporter that was named does not answer.
            ConfigError: there is no such tree.

        """
        if self.exporter is None:
            return self._look("")
        try:
            view = self.exporter.view()
        except NoAnswer as reason:
            if self.required:
                raise
            return self._look(f" ({reason})")
        return Shown(view, self._told(view, self.exporter))

    def events(self, limit: int) -> EventsView:
        """Ask for events. Raises NoAnswer: only a running exporter knows any."""
        if self.exporter is None:
            raise NoAnswer(
                "events are known to a running exporter only, and none is asked: --url names one"
            )
        return self.exporter.events(limit)

    def close(self) -> None:
        """Give back what was opened."""
        if self._local is not None:
            self._local.close()

    def _told(self, view: NodeView, exporter: Exporter) -> str:
        tree = "" if view.sysfs == self.config.path_sysfs else f" of {view.sysfs}"
        polled = f"polled {age(view.poll.age_seconds)} ago"
        if view.poll.age_seconds < 1:
            polled = "polled just now"
        return f"exporter {view.version} at {exporter}{tree}, {polled}"

    def _look(self, reason: str) -> Shown:
        sysfs = self.config.path_sysfs
        if self._local is None:
            self._taken = refuse_broken(sysfs)
            refuse_untold(sysfs)
            self._local = LocalView(
                self.config,
                Where(os.uname().nodename, sysfs),
                self._note_unread,
                pcie=self.config.collector_pcie,
            )
        view = self._local.view()
        unread = ""
        if self._unread:
            unread = f", {self._unread} file{'s' if self._unread > 1 else ''} could not be read"
        still = f", a capture of {self._taken}" if self._taken is not None else ""
        return Shown(view, f"read from {sysfs}{still}, without history{unread}{reason}")

    def _note_unread(self, _path: str, _reason: str) -> None:
        self._unread += 1


def origin_of(config: Config, url: str | None) -> Origin:
    """Find out who is asked.

    Args:
        config: tells where this machine's exporter listens, and which tree is meant.
        url: an exporter; ``""``: nobody is asked; None: the configured one, if the tree is
            this machine's.

    Raises:
        ConfigError: the URL is none.

    """
    if url:
        try:
            return Origin(config, Exporter.at(url), required=True)
        except ValueError as error:
            raise ConfigError(f"--url: {quoted(url)}: {error}") from error
    if url is not None or not config.this_machine:
        return Origin(config, None, required=False)
    own = Exporter.at(url_of(config.web_listen_address[0]))
    return Origin(config, own, required=False)
