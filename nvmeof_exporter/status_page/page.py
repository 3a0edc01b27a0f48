"""The whole page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmeof_exporter import __version__
from nvmeof_exporter.show.measures import age
from nvmeof_exporter.status_page.html import Html, joined, tag
from nvmeof_exporter.status_page.parts import Level, badge, level_of, subsystem_part, trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvmeof_exporter.view.model import NodeView

__all__ = ["OBJECTIVE_SECONDS", "page"]

#: How long a failover may take where nobody says otherwise: the objective of the alert rules.
OBJECTIVE_SECONDS = 5.0

#: Who has no JavaScript sees the page anew so often (seconds).
_REFRESH = 5

#: More subsystems than these are folded where nothing is wrong with them.
_MOST_UNFOLDED = 6

_ORDER = ("lost", None, "at-risk", "degraded", "redundant")
_NOTHING = Level("nothing connected", "○", "warning")
_STALLED = Level("I/O stands still", "✕", "bad")
_NOT_YET = Level("not polled yet", "○", "warning")

_LINKS = {
    "./api/v1/status": "Status as JSON",
    "./api/v1/events": "Events as JSON",
    "./-/healthy": "Health",
}


def page(view: NodeView | None, files: Mapping[str, str], metrics: str, objective: float) -> str:
    """Return the page as HTML.

    Args:
        view: the node; None while it was not polled yet.
        files: the addresses of ``status.css``, ``status.js`` and ``status.svg``.
        metrics: the path of the metrics.
        objective: how long a failover may take, in seconds.

    """
    levels = _levels(view)
    name = view.node if view is not None else "nvmeof-exporter"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{levels[0].sign} {levels[0].word}: {name}"),
        tag("link", rel="icon", href=files["status.svg"]),
        tag("link", rel="stylesheet", href=files["status.css"]),
        tag("script", src=files["status.js"], defer=True),
        tag("noscript", tag("meta", http_equiv="refresh", content=_REFRESH)),
    )
    body = tag(
        "body",
        tag("p", id="gone", class_="alarm", role="alert", hidden=True),
        tag("main", *_main(view, name, levels, objective)),
        tag("footer", _links(metrics)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _levels(view: NodeView | None) -> list[Level]:
    """What is to be known of the node at a glance, worst first."""
    if view is None:
        return [_NOT_YET]
    if not view.subsystems:
        return [_NOTHING]
    worst = min((subsystem.redundancy.level for subsystem in view.subsystems), key=_ORDER.index)
    stalled = any(one.stalled_seconds for each in view.subsystems for one in each.namespaces)
    return [_STALLED, level_of(worst)] if stalled else [level_of(worst)]


def _main(view: NodeView | None, name: str, levels: list[Level], objective: float) -> list[Html]:
    badges = joined(*(joined(badge(level), " ") for level in levels))
    heading = tag("h1", badges, tag("span", name, class_="name", id="node"))
    if view is None:
        return [heading, tag("p", "The exporter has just begun and knows nothing yet.")]
    anchors = [f"subsystem-{number}" for number in range(1, len(view.subsystems) + 1)]
    few = len(anchors) <= _MOST_UNFOLDED
    return [
        heading,
        *_conditions(view),
        _now(view, anchors),
        joined() if few else _contents(view, anchors),
        *(
            subsystem_part(
                view,
                subsystem,
                objective,
                anchor,
                unfolded=few or subsystem.redundancy.level != "redundant",
            )
            for subsystem, anchor in zip(view.subsystems, anchors, strict=True)
        ),
        _policy(view),
    ]


def _conditions(view: NodeView) -> list[Html]:
    """How far what follows can be trusted."""
    poll = view.poll
    every = f", every {poll.interval_seconds * 1000:.0f} ms" if poll.interval_seconds else ""
    watching = f"; watching for {age(view.time - view.started)}" if view.started else ""
    told = f"read {_recently(poll.age_seconds)}{every}{watching}"
    lines = [tag("p", told, class_="faint fresh")]
    if view.health is not None:
        if view.health.problem is not None:
            lines.append(
                tag("p", f"The exporter is not healthy: {view.health.problem}", class_="alarm")
            )
        failing = [one.name for one in view.health.collectors if not one.success]
        if failing:
            told = f"not everything could be read: {', '.join(failing)}"
            lines.append(tag("p", badge(Level(told, "▲", "warning"))))
    if view.multipath_enabled is False:
        told = "native multipath is off (nvme_core.multipath=N)"
        lines.append(tag("p", badge(Level(told, "▲", "warning"))))
    if not view.subsystems:
        lines.append(tag("p", "No NVMe over Fabrics subsystem is connected."))
    return lines


def _recently(seconds: float) -> str:
    return "less than a second ago" if seconds < 1 else f"{age(seconds)} ago"


def _now(view: NodeView, anchors: list[str]) -> Html:
    """What goes wrong at this moment, before everything else."""
    rows = [
        tag("li", tag("a", subsystem.nqn, href=f"#{anchor}", class_="name"), f": {told}")
        for subsystem, anchor in zip(view.subsystems, anchors, strict=True)
        if (told := trouble(subsystem))
    ]
    return tag("ul", *rows, class_="alarm", id="now") if rows else joined()


def _contents(view: NodeView, anchors: list[str]) -> Html:
    """Where to find what is not as it should be, among many."""
    wanting = [
        tag("li", tag("a", subsystem.nqn, href=f"#{anchor}"), " ", badge(level_of(level)))
        for subsystem, anchor in zip(view.subsystems, anchors, strict=True)
        if (level := subsystem.redundancy.level) != "redundant"
    ]
    counted = f"{len(anchors)} subsystems, {len(anchors) - len(wanting)} of them redundant"
    return joined(tag("p", counted), tag("ul", *wanting) if wanting else None)


def _policy(view: NodeView) -> Html:
    policy = view.policy
    counts = [
        f"{policy.counts[w]} {w}"
        for w in ("critical", "warning", "unknown", "ok")
        if policy.counts.get(w)
    ]
    if not view.subsystems or not counts:
        return joined()
    rows = [
        tag(
            "li",
            tag("span", one.path or one.nqn or "host", class_="name"),
            f" {one.rule}: found {one.found}, wanted {one.wanted}",
        )
        for one in policy.violations
    ]
    summary = tag("summary", tag("h2", f"Policy {policy.name}: {', '.join(counts)}"))
    told = tag("ul", *rows) if rows else tag("p", "nothing to say against it", class_="faint")
    return tag("details", summary, told, id="policy")


def _links(metrics: str) -> Html:
    links = {f".{metrics}": "Metrics", **_LINKS}
    anchors = [tag("a", text, href=address) for address, text in links.items()]
    about = (
        f"nvmeof-exporter {__version__}; docs/status-page.md explains this page, "
        "docs/metrics.md every metric."
    )
    return joined(
        tag("nav", *(joined(anchor, " ") for anchor in anchors), aria_label="Elsewhere"),
        tag("p", about, class_="faint"),
    )
