"""The parts of a subsystem on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.show.measures import age, pause, size
from nvmeof_exporter.status_page.html import Html, joined, tag
from nvmeof_exporter.status_page.timeline import bar, clock, spans, strip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvmeof_exporter.view.model import (
        FailoverView,
        NamespaceView,
        NodeView,
        PathView,
        SubsystemView,
    )

__all__ = ["Level", "badge", "level_of", "subsystem_part", "trouble"]

#: So many of the newest failovers are told.
_MOST_FAILOVERS = 5
#: With these there is nothing left to share.
_ALONE = frozenset({"at-risk", "lost"})


class Level(NamedTuple):
    """How bad it is: a word, a sign that is read without colours, and a class for the colour."""

    word: str
    sign: str
    colour: str


_LEVELS = {
    "lost": Level("lost", "✕", "bad"),
    "at-risk": Level("at risk", "▲", "warning"),
    "degraded": Level("degraded", "▲", "warning"),
    "redundant": Level("redundant", "●", "good"),
}
_UNTOLD = Level("cannot be told", "?", "warning")

_STATES = {
    "live": ("●", "good"),
    "missing": ("✕", "bad"),
    "dead": ("✕", "bad"),
    "deleting": ("✕", "bad"),
    "new": ("○", "warning"),
    "connecting": ("◌", "warning"),
    "resetting": ("◌", "warning"),
}


def level_of(level: str | None) -> Level:
    """Return what stands for a redundancy level."""
    return _LEVELS.get(level or "", _UNTOLD)


def badge(level: Level) -> Html:
    """A level as it stands in the page."""
    return _mark(level.sign, level.word, level.colour)


def subsystem_part(
    view: NodeView, subsystem: SubsystemView, objective: float, anchor: str, *, unfolded: bool
) -> Html:
    """All of one subsystem, folded to its verdict unless ``unfolded``."""
    level = level_of(subsystem.redundancy.level)
    about = [subsystem.model, subsystem.iopolicy, *subsystem.directories]
    return tag(
        "details",
        tag(
            "summary",
            tag("h2", badge(level), " ", tag("span", subsystem.nqn, class_="name")),
            tag("p", subsystem.redundancy.verdict, _counted(subsystem), class_="verdict"),
        ),
        tag("p", " · ".join(filter(None, about)), class_="faint"),
        _shared(subsystem),
        _paths(view, subsystem.paths),
        _namespaces(subsystem.namespaces),
        _failovers(view, subsystem.failovers, objective),
        class_="subsystem",
        id=anchor,
        open=unfolded,
        data_wanted="open" if unfolded else "folded",
    )


def _counted(subsystem: SubsystemView) -> Html:
    wanted = max(subsystem.redundancy.connected, subsystem.redundancy.expected or 0)
    live = sum(path.state == "live" for path in subsystem.paths)
    return tag("span", f" · {live} of {wanted} paths live", class_="faint")


def _mark(sign: str, word: str, colour: str) -> Html:
    return tag("span", tag("span", sign, aria_hidden="true"), f" {word}", class_=f"mark {colour}")


def _shared(subsystem: SubsystemView) -> Html | None:
    single = [resource for resource, count in subsystem.shared.items() if count == 1]
    if not single or subsystem.redundancy.level in _ALONE:
        return None
    named = ", ".join(resource.replace("_", " ") for resource in single)
    return tag("p", _mark("▲", f"all paths share one: {named}", "warning"))


def trouble(subsystem: SubsystemView) -> str:
    """Say what goes wrong at this moment; ``""`` when nothing does."""
    stalled = [one for one in subsystem.namespaces if one.stalled_seconds]
    told = []
    if stalled:
        named = ", ".join(one.nsid for one in stalled)
        longest = max(one.stalled_seconds or 0.0 for one in stalled)
        of = "namespaces" if len(stalled) > 1 else "namespace"
        told.append(f"I/O of {of} {named} stands still, for {pause(longest)} by now")
    if subsystem.failover_in_progress:
        told.append("a failover is going on")
    return "; ".join(told)


def _paths(view: NodeView, paths: Iterable[PathView]) -> Html | None:
    rows = [_path(view, path) for path in paths]
    if not rows:
        return None
    return joined(tag("h3", "Paths"), tag("ul", *rows, class_="paths"))


def _path(view: NodeView, path: PathView) -> Html:
    sign, colour = _STATES.get(path.state or "", ("?", "warning"))
    told = path.state or "unknown"
    if path.state != path.raw_state and path.raw_state:
        told = f"{told} ({path.raw_state})"
    facts = filter(None, (_since(view, path), *_facts(path)))
    return tag(
        "li",
        tag(
            "div",
            _mark(sign, told, colour),
            " ",
            tag("span", path.path, class_="name"),
            " ",
            _carrying(path),
            class_="head",
        ),
        tag("div", " · ".join(facts), class_="faint"),
        _history(view, path),
    )


def _carrying(path: PathView) -> Html | None:
    if path.stalled_seconds:
        return _mark("✕", f"requests stand still for {pause(path.stalled_seconds)}", "bad")
    if path.superseded:
        return tag("span", "superseded", class_="faint")
    return tag("span", "⇄ carries I/O", class_="io") if path.carries_io else None


def _since(view: NodeView, path: PathView) -> str:
    if path.since is not None:
        return f"for {age(view.time - path.since)}"
    if path.history is not None:
        return f"for more than {age(view.time - path.history.watched_since)}"
    if path.state == "missing" and path.last_seen is not None:
        return f"last seen {age(view.time - path.last_seen)} ago"
    return ""


def _facts(path: PathView) -> Iterable[str]:
    # Of a path that is not live it is the last one told, and says nothing any more.
    ana = path.ana or {} if path.state == "live" else {}
    yield ", ".join(f"{state} {n}" if len(ana) > 1 else state for state, n in sorted(ana.items()))
    link = {None: "", True: " (link up)", False: " (link down)"}[path.link_up]
    if path.netdev:
        yield path.netdev + link
    if path.rdma_device:
        yield f"{path.rdma_device}/{path.rdma_port}"
    yield path.controller or ""


def _history(view: NodeView, path: PathView) -> Html | None:
    history = path.history
    if history is None:
        return None
    found = spans(history.timeline, view.time)
    changes = len(found) - 1
    short = view.time - history.watched_since < _HOUR
    told = "no change seen" if short else "no change in the last hour"
    if changes > 0:
        before, last = found[-2:]
        told = (
            f"{changes} change{'s' if changes > 1 else ''} in the last hour, "
            f"{'the last one ' if changes > 1 else ''}from {before.state} to {last.state} "
            f"at {clock(last.start)}"
        )
    if short:
        told += f"; watched for {age(view.time - history.watched_since)}"
    return joined(strip(found, view.time), tag("div", told, class_="faint small"))


_HOUR = 3600.0


def _namespaces(namespaces: Iterable[NamespaceView]) -> Html | None:
    rows = [_namespace(one) for one in namespaces]
    if not rows:
        return None
    head = tag("tr", *(tag("th", name, scope="col") for name in ("Namespace", "Paths", "I/O")))
    return joined(tag("h3", "Namespaces"), tag("table", tag("thead", head), tag("tbody", *rows)))


def _namespace(namespace: NamespaceView) -> Html:
    about = [*namespace.devices]
    if namespace.size_bytes is not None:
        about.append(size(namespace.size_bytes))
    return tag(
        "tr",
        tag(
            "th",
            tag("span", namespace.nsid, class_="name"),
            " ",
            tag("span", " · ".join(about), class_="faint"),
            scope="row",
        ),
        tag("td", _ways(namespace)),
        tag("td", _io(namespace)),
    )


def _ways(namespace: NamespaceView) -> Html:
    found = namespace.conditions
    if found is None:
        return _mark("?", "not known", "warning")
    usable = found["optimized"] + found["non-optimized"]
    more = [f"{found[name]} {name}" for name in ("standby", "unusable") if found[name]]
    if usable:
        return joined(", ".join((f"{usable} usable", *more)))
    return joined(_mark("✕", "none usable", "bad"), " ", ", ".join(more))


def _io(namespace: NamespaceView) -> Html:
    if namespace.stalled_seconds:
        return _mark("✕", f"stands still for {pause(namespace.stalled_seconds)}", "bad")
    carriers = [path.path for path in namespace.paths if path.carries_io]
    if len(carriers) == 1:
        return joined("over ", tag("span", carriers[0], class_="name"))
    if carriers:
        return joined(f"over {len(carriers)} paths")
    unknown = any(path.carries_io is None for path in namespace.paths)
    return joined("not known" if unknown else "none seen")


def _failovers(
    view: NodeView, failovers: tuple[FailoverView, ...] | None, objective: float
) -> Html | None:
    if failovers is None:
        return None
    head = tag("h3", "Last failovers")
    if not failovers:
        watched = f" in {age(view.time - view.started)}" if view.started is not None else ""
        return joined(head, tag("p", f"none seen{watched}", class_="faint"))
    newest = failovers[:_MOST_FAILOVERS]
    longest = max((one.seconds or 0.0) for one in newest)
    rows = [_failover(view, one, objective, longest) for one in newest]
    return joined(head, tag("ul", *rows, class_="failovers"))


def _failover(view: NodeView, failover: FailoverView, objective: float, longest: float) -> Html:
    paths = ", ".join((failover.path, *failover.also))
    when = f"{age(view.time - failover.time)} ago, at {clock(failover.time)}"
    head = joined("I/O left ", tag("span", paths, class_="name"), f" (cause: {failover.cause})")
    if failover.seconds is None:
        return tag("li", tag("div", head), tag("div", f"{when}; no I/O took part", class_="faint"))
    within = failover.seconds <= objective
    told = (
        f"{pause(failover.seconds)}, objective of {objective:g} s {'met' if within else 'missed'}"
    )
    mark = _mark("●" if within else "▲", told, "good" if within else "bad")
    phases = ", ".join(f"{name} {pause(seconds)}" for name, seconds in failover.phases.items())
    return tag(
        "li",
        tag("div", mark, " ", head, class_="head"),
        bar(failover.seconds, objective, longest),
        tag("div", f"{when}{f': {phases}' if phases else ''}", class_="faint"),
    )
