"""The table, and how the figures stand to the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.stage import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fit", "table", "targets"]

_MEBIBYTE = 1 << 20

#: By size: share of a core, seconds of a scrape, resident MiB.
_LIMITS = {"gpu-node": (0.015, 0.010, 45), "large": (0.10, 0.080, 90)}

_FLOOR_RATIO = 3.0
_RESIDENT_RATIO = 1.5
_START_SECONDS = 1.0


class Target(NamedTuple):
    """One target: met when ``figure`` is at most ``limit``."""

    size: str
    name: str
    figure: float
    limit: float
    unit: str

    def __str__(self) -> str:
        met = "met" if self.figure <= self.limit else "NOT met"
        return (
            f"{self.size:9} {self.name:52} {self.figure:9.3f} {self.limit:9.3f} {self.unit:6} {met}"
        )


def table(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Write the figures, a column per size."""
    yield f"{'':52}" + "".join(f"{size:>12}" for size in results)
    for name, tell in _ROWS:
        yield f"{name:52}" + "".join(f"{_cell(tell, f):>12}" for f in results.values())


def _cell(tell: Any, figures: dict[str, Any]) -> str:
    """Write a figure; some cannot be measured everywhere."""
    try:
        return str(tell(figures))
    except (KeyError, TypeError):
        return "-"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"


def _row(*keys: str) -> Any:
    def tell(figures: dict[str, Any]) -> str:
        value: Any = figures
        for key in keys:
            value = value[key]
        return _ms(value)

    return tell


def _per_sample(part: Any, form: str) -> float:
    return float(part["scrapes"][form]["processor_seconds"] / part["samples"])


_ROWS: tuple[tuple[str, Any], ...] = (
    ("namespace paths", lambda f: f"{f['namespace_paths']}"),
    ("files read at each poll", lambda f: f"{f['polls']['files']}"),
    ("floor in C, processor ms per round", _row("polls", "floor_seconds")),
    ("poll with all moving, processor ms", _row("polls", "poll_seconds")),
    ("poll with nothing moving, processor ms", _row("polls", "poll_still_seconds")),
    ("poll, wall ms p50", _row("polls", "poll_wall_p50_seconds")),
    ("poll, wall ms p99", _row("polls", "poll_wall_p99_seconds")),
    ("the process at 10 polls/s, % of a core", lambda f: f"{f['exporter']['share'] * 100:.2f}"),
    ("detection, ms p50", _row("exporter", "detection_p50_seconds")),
    ("detection, ms p99", _row("exporter", "detection_p99_seconds")),
    ("start to first answer, ms", _row("exporter", "start_seconds")),
    ("resident, MiB", lambda f: f"{f['exporter']['resident_bytes'] / _MEBIBYTE:.1f}"),
    ("samples", lambda f: f"{f['exporter']['samples']}"),
    *(
        (f"scrape {form}, {what}", _row("exporter", "scrapes", form, key))
        for form in ("text", "text gzip", "openmetrics", "openmetrics gzip")
        for what, key in (("ms p50", "p50_seconds"), ("processor ms", "processor_seconds"))
    ),
    (
        "scrape text gzip, processor us per sample",
        lambda f: f"{_per_sample(f['exporter'], 'text gzip') * 1e6:.2f}",
    ),
    *(
        row
        for part, words in (("textfile", "same samples"), ("own", "own collectors"))
        for row in (
            (
                f"node_exporter, {words}: samples",
                lambda f, part=part: f"{f['node_exporter'][part]['samples']}",
            ),
            (
                f"node_exporter, {words}: text gzip, processor ms",
                _row("node_exporter", part, "scrapes", "text gzip", "processor_seconds"),
            ),
            (
                f"node_exporter, {words}: us per sample",
                lambda f, part=part: (
                    f"{_per_sample(f['node_exporter'][part], 'text gzip') * 1e6:.2f}"
                ),
            ),
            (
                f"node_exporter, {words}: resident, MiB",
                lambda f, part=part: (
                    f"{f['node_exporter'][part]['resident_bytes'] / _MEBIBYTE:.1f}"
                ),
            ),
        )
    ),
    ("nvme list-subsys -o json, processor ms", _row("nvme_list", "processor_seconds")),
    ("nvme list-subsys -o json, wall ms", _row("nvme_list", "wall_seconds")),
)


def targets(results: dict[str, dict[str, Any]]) -> Iterator[Target]:
    """Hold the figures against the targets."""
    for size, figures in results.items():
        polls, exporter = figures["polls"], figures["exporter"]
        ratio = polls["poll_seconds"] / polls["floor_seconds"]
        yield Target(size, "poll, times the floor in C", ratio, _FLOOR_RATIO, "")
        yield Target(
            size,
            "detection p99, intervals",
            exporter["detection_p99_seconds"] / POLL_SECONDS,
            1.0,
            "",
        )
        yield Target(size, "start to first answer", exporter["start_seconds"], _START_SECONDS, "s")
        node_exporter = figures["node_exporter"]
        if node_exporter is not None:
            same = node_exporter["textfile"]
            for form in ("text", "text gzip"):
                ratio = _per_sample(exporter, form) / _per_sample(same, form)
                yield Target(size, f"{form} per sample, times node_exporter's", ratio, 1.0, "")
            ratio = exporter["resident_bytes"] / same["resident_bytes"]
            yield Target(size, "resident, times node_exporter's", ratio, _RESIDENT_RATIO, "")
        if size in _LIMITS:
            share, seconds, resident = _LIMITS[size]
            yield Target(size, "share of a core", exporter["share"] * 100, share * 100, "%")
            for form in ("text", "text gzip"):
                found = exporter["scrapes"][form]["p50_seconds"] * 1e3
                yield Target(size, f"scrape {form}, p50", found, seconds * 1e3, "ms")
            found = exporter["resident_bytes"] / _MEBIBYTE
            yield Target(size, "resident", found, resident, "MiB")


def fit(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Lay a straight line through the cost of a poll over the number of namespace paths."""
    points = [
        (figures["namespace_paths"], figures["polls"]["poll_seconds"] * 1e3)
        for figures in results.values()
    ]
    if len({paths for paths, _ in points}) < 2:
        return
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )
    base = mean_y - slope * mean_x
    yield f"poll = {base:.3f} ms + {slope * 1e3:.2f} us per namespace path"
    for (x, y), size in zip(points, results, strict=True):
        yield f"  {size:9} {x:5} paths: {y:8.3f} ms, the line {base + slope * x:8.3f} ms"
