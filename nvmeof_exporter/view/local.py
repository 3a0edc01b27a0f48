"""The view of a tree that nobody watches: read for the occasion."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nvmeof_exporter import survey
from nvmeof_exporter.exposition.state import Expected
from nvmeof_exporter.monitor.monitor import Monitor
from nvmeof_exporter.policy import preset_policy
from nvmeof_exporter.policy.path_rules import FABRICS
from nvmeof_exporter.sources.nvme import NvmeSource
from nvmeof_exporter.sources.reader import Reader
from nvmeof_exporter.view.build import Where, node_view
from nvmeof_exporter.view.history import History
from nvmeof_exporter.view.moment import Moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvmeof_exporter.model import Snapshot
    from nvmeof_exporter.survey import SurveyConfig
    from nvmeof_exporter.view.model import NodeView

__all__ = ["LocalView"]

#: Two looks are this far apart (seconds), so that it can be told which paths carry I/O.
_BETWEEN_LOOKS = 0.2


class LocalView:
    """Looks at a tree itself. What only a watcher knows is left open.

    Args:
        config: which tree it is, and what is expected of it.
        where: the same, as it is told.
        tell: called once per file that cannot be read, and reason.
        pcie: include local drives.
        sleep: waits so many seconds between two looks.

    """

    def __init__(
        self,
        config: SurveyConfig,
        where: Where,
        tell: Callable[[str, str], None],
        *,
        pcie: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._where = where
        self._sleep = sleep
        self._reader = Reader(tell)
        self._source = NvmeSource(self._reader, config.path_sysfs, pcie=pcie)
        transports = {*FABRICS, "pcie"} if pcie else FABRICS
        self._monitor = Monitor(expectations=survey.expectations(config, transports))
        self._looked = False

    def view(self) -> NodeView:
        """Look, and tell; the first time it takes two looks."""
        if not self._looked:
            self._looked = True
            self._look()
            self._sleep(_BETWEEN_LOOKS)
        snapshot = self._look()
        around = survey.surroundings(
            snapshot, self._reader, self._config, ask_lldpd=True, warn=lambda *_: None
        )
        moment = Moment(
            snapshot,
            Expected.of(self._monitor),
            around,
            self._config.policy or preset_policy(),
            History.of(self._monitor),
            watched=False,
        )
        return node_view(moment, self._where, snapshot.monotonic)

    def close(self) -> None:
        """Give back every descriptor."""
        self._source.close()

    def _look(self) -> Snapshot:
        self._source.rescan()
        snapshot = self._source.poll(time.monotonic(), time.time())
        self._monitor.observe(snapshot)
        return snapshot
