"""The verdicts as they are told: to people, to machines, and to a monitoring plugin's host."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nvmeof_exporter.policy.findings import Finding, Verdict
from nvmeof_exporter.policy.rules import RULES
from nvmeof_exporter.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["STATUSES", "Report", "Told", "plugin_line", "told"]

#: Words by exit status, as monitoring plugins use both.
STATUSES = ("ok", "warning", "critical", "unknown")
_OK, _WARNING, _CRITICAL, _UNKNOWN = range(4)

#: So many paths' commands are shown; JSON has all.
_MOST_STEPS = 4

_NOTHING = "no NVMe over Fabrics subsystem is connected: there is nothing to judge"

_COLOURS = {"ok": "32", "warning": "33", "critical": "1;31", "unknown": "36"}
_WORD_WIDTH = max(map(len, STATUSES))
_RULE_WIDTH = max(map(len, RULES))
_INDENT = " " * (2 + _WORD_WIDTH + 2)


class Told(msgspec.Struct, frozen=True):
    """A finding as JSON."""

    rule: str
    nqn: str
    path: str
    verdict: str
    severity: str
    found: str
    wanted: str
    why: str
    source: str
    how: tuple[str, ...]


class _Group(NamedTuple):
    """Findings of one subsystem that say the same of different paths."""

    findings: list[Finding]

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def steps(self) -> list[str]:
        """What repairs all of them: every path's first step, then every path's second."""
        steps: list[str] = []
        for alike in itertools.zip_longest(*(finding.how for finding in self.findings)):
            own = list(dict.fromkeys(step for step in alike if step is not None))
            more = len(own) - _MOST_STEPS
            steps += own[:_MOST_STEPS] + (
                [f"and likewise on {more} more paths"] if more > 0 else []
            )
        return steps


class Report(NamedTuple):
    """Findings under the policy of a name."""

    policy: str
    findings: Sequence[Finding]

    @property
    def status(self) -> int:
        """The exit status: the worst severity; 3 when no subsystem could be judged at all."""
        violated = [f for f in self.findings if f.verdict is Verdict.VIOLATED]
        if any(finding.critical for finding in violated):
            return _CRITICAL
        if violated:
            return _WARNING
        judged = any(f.nqn and f.verdict is Verdict.KEPT for f in self.findings)
        return _OK if judged else _UNKNOWN

    def counts(self) -> dict[str, int]:
        """How many findings there are of each of STATUSES."""
        return _counts(self.findings)

    def json(self) -> str:
        """Everything, for machines."""
        whole = {
            "policy": self.policy,
            "status": STATUSES[self.status],
            "counts": self.counts(),
            "findings": [told(finding) for finding in self.findings],
        }
        return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"

    def plugin(self) -> str:
        """One line with the verdict and counts, then one line for each violation."""
        violated = [f for f in self.findings if f.verdict is Verdict.VIOLATED]
        counts = self.counts()
        if self.status == _UNKNOWN:
            return plugin_line(_UNKNOWN, self._summary(counts))
        figures = " ".join(f"{status}={count}" for status, count in counts.items())
        lines = [f"{plugin_line(self.status, self._summary(counts)).rstrip()} | {figures}"]
        lines += [
            _plain(f"{_word(f)}: {f.rule} {_place(f)}: {f.found}, wanted {f.wanted}")
            for f in violated
        ]
        return "\n".join(lines) + "\n"

    def text(self, *, colour: bool, width: int) -> str:
        """For people: aligned, wrapped to ``width`` columns, what is wrong with its remedy.

        Paths of which the same is said share a line, and lines are counted.
        """
        parts = []
        counted: list[Finding] = []
        for nqn in dict.fromkeys(finding.nqn for finding in self.findings):
            own = [finding for finding in self.findings if finding.nqn == nqn]
            lines = [printable(nqn) or "host"]
            for group in _grouped(own):
                counted.append(group.first)
                lines += _lines(group, colour=colour, width=width)
            parts.append("\n".join(lines) + "\n")
        parts.append(f"policy {self.policy}: {self._summary(_counts(counted))}\n")
        return "\n".join(parts)

    def _summary(self, counts: Mapping[str, int]) -> str:
        if not any(finding.nqn for finding in self.findings):
            return _NOTHING
        order = (_CRITICAL, _WARNING, _UNKNOWN, _OK)
        words = [STATUSES[status] for status in order]
        named = [f"{counts[word]} {word}" for word in words if counts[word]]
        return ", ".join(named)


def plugin_line(status: int, text: str) -> str:
    """The line of a monitoring plugin: service, status, text."""
    return f"NVMEOF {STATUSES[status].upper()} - {_plain(text)}\n"


def told(finding: Finding) -> Told:
    """A finding with its severity, and what is known of its rule."""
    rule = RULES[finding.rule]
    return Told(
        finding.rule,
        finding.nqn,
        finding.path,
        finding.verdict.value,
        _word(finding),
        finding.found,
        finding.wanted,
        rule.why,
        rule.source,
        finding.how,
    )


def _counts(findings: Iterable[Finding]) -> dict[str, int]:
    words = [_word(finding) for finding in findings]
    return {status: words.count(status) for status in STATUSES}


def _word(finding: Finding) -> str:
    if finding.verdict is Verdict.VIOLATED:
        return STATUSES[_CRITICAL if finding.critical else _WARNING]
    return STATUSES[_OK if finding.verdict is Verdict.KEPT else _UNKNOWN]


def _place(finding: Finding) -> str:
    return f"{finding.path} of {finding.nqn}" if finding.path else finding.nqn or "host"


def _grouped(findings: Iterable[Finding]) -> list[_Group]:
    groups: dict[tuple[object, ...], _Group] = {}
    for finding in findings:
        key = (finding.rule, finding.verdict, finding.found, finding.wanted, finding.critical)
        groups.setdefault(key, _Group([])).findings.append(finding)
    order = list(RULES)
    return sorted(groups.values(), key=lambda group: order.index(group.first.rule))


def _lines(group: _Group, *, colour: bool, width: int) -> list[str]:
    finding = group.first
    word = _word(finding)
    head = f"{word:<{_WORD_WIDTH}}"
    if colour:
        head = f"\033[{_COLOURS[word]}m{head}\033[0m"
    start = f"  {head}  {finding.rule:<{_RULE_WIDTH}}  "
    under = " " * (2 + _WORD_WIDTH + 2 + _RULE_WIDTH + 2)
    body = _wrapped(printable(_said(group)), width, len(under))
    lines = [start + body[0], *(under + line for line in body[1:])]
    if finding.verdict is Verdict.VIOLATED:
        rule = RULES[finding.rule]
        lines += _remark("why", f"{rule.why} [{rule.source}]", width)
        for step in group.steps:
            lines += _remark("how", step, width)
    return lines


def _said(group: _Group) -> str:
    finding = group.first
    paths = [one.path for one in group.findings if one.path]
    if finding.verdict is Verdict.VIOLATED:
        where = f" on {', '.join(paths)}" if paths else ""
        return f"{finding.found}{where}; wanted: {finding.wanted}"
    where = f" on {len(paths)} path{'s' if len(paths) > 1 else ''}" if paths else ""
    return f"{finding.found}{where}"


def _remark(name: str, text: str, width: int) -> list[str]:
    start = f"{_INDENT}{name}  "
    body = _wrapped(printable(text), width, len(start))
    return [start + body[0], *(" " * len(start) + line for line in body[1:])]


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    room = max(width - indent, 30)
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def _plain(text: str) -> str:
    """The same, where ``|`` begins a plugin's figures."""
    return printable(text).replace("|", "/")
