"""Rules about one path: the settings of its connection.

Which settings can be changed on a live connection follows from the kernel's
drivers/nvme/host/sysfs.c: attributes with a store function.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from nvmeof_exporter.policy.findings import (
    Finding,
    Verdict,
    seconds_text,
    wanted_text,
    within,
)
from nvmeof_exporter.policy.rules import RULES, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvmeof_exporter.model import Controller
    from nvmeof_exporter.policy.model import Limits

__all__ = ["FABRICS", "Judged", "judge_path", "path_findings", "path_values", "value_text"]

#: Transports that have these settings: a local drive has neither connection nor keep-alive.
FABRICS = frozenset({"tcp", "rdma", "fc", "loop"})

#: The kernel's word for "never" in those attributes that know one.
_NEVER = -1


class Judged(NamedTuple):
    """A rule about a path, answered but not put into words."""

    rule: str
    value: float | None
    limits: Limits
    verdict: Verdict


def judge_path(controller: Controller, limits: Mapping[str, Limits]) -> Iterator[Judged]:
    """Answer the rules that are on for one controller."""
    if controller.path.transport not in FABRICS:
        return
    for rule, value in path_values(controller).items():
        wanted = limits[rule]
        if not wanted.enabled:
            continue
        if value is None:
            verdict = Verdict.UNKNOWN
        else:
            verdict = Verdict.KEPT if within(value, wanted) else Verdict.VIOLATED
        yield Judged(rule, value, wanted, verdict)


def path_findings(controller: Controller, limits: Mapping[str, Limits]) -> Iterator[Finding]:
    """What the rules that are on say of one controller."""
    for judged in judge_path(controller, limits):
        yield _finding(controller, judged)


def path_values(controller: Controller) -> dict[str, float | None]:
    """What each rule about paths looks at, by rule; None where it is not known now."""
    settings = controller.settings
    keep_alive = settings.keep_alive_timeout
    return {
        # 0 is no keep-alive at all: a silent path is never given up for that.
        "keep_alive": math.inf if keep_alive == 0 else keep_alive,
        "reconnect_delay": settings.reconnect_delay,
        "ctrl_loss_tmo": settings.ctrl_loss_timeout,
        "fast_io_fail_tmo": settings.fast_io_fail_timeout,
        "io_timeout": settings.io_timeout,
        # Torn down while the path is down: it says nothing then.
        "queues": settings.queues if controller.state == "live" else None,
    }


def _finding(controller: Controller, judged: Judged) -> Finding:
    rule, value, limits, verdict = judged
    how: tuple[str, ...] = ()
    if value is None:
        found = _not_known(rule, controller.state)
    else:
        found = value_text(rule, value)
        if verdict is Verdict.VIOLATED:
            how = _how(rule, controller, _nearest(value, limits))
    wanted = wanted_text(rule, limits)
    return Finding(rule, controller.nqn, str(controller.path), verdict, found, wanted, how)


def _not_known(rule: str, state: str | None) -> str:
    if rule != "queues" or state == "live":
        return "the kernel shows none"
    if state in {None, "unknown"}:
        return "not known: nor is whether the path is up"
    return "not known while the path is down"


def value_text(rule: str, value: float) -> str:
    """What a rule about paths looks at, as people write it."""
    return f"{value:g}" if RULES[rule].kind is Kind.NUMBER else seconds_text(value)


def _nearest(value: float, limits: Limits) -> float:
    """The limit that is broken: changing the setting to it is enough."""
    if limits.least is not None and value < limits.least:
        return limits.least
    return limits.most if limits.most is not None else value


def _how(rule: str, controller: Controller, value: float) -> tuple[str, ...]:
    """The steps that set one controller's setting to a value."""
    name = controller.name
    number = _number(value)
    option = f"--{rule.replace('_', '-')}={number}"
    write = f"now: echo {number} > /sys/class/nvme/{name}/{rule}"
    if rule == "keep_alive":
        option = f"--keep-alive-tmo={0 if math.isinf(value) else number}"
    elif rule == "queues":
        option = f"--nr-io-queues={max(number - 1, 1)}"
    elif rule == "io_timeout":
        return (
            f"for later connections: echo {number} > /sys/module/nvme_core/parameters/io_timeout",
            f"for good: nvme_core.io_timeout={number} on the kernel's command line",
        )
    elif rule == "reconnect_delay":
        return (write + _keeping_loss_timeout(controller), f"for good: nvme connect {option}")
    elif rule == "fast_io_fail_tmo":
        return (write, f"for good: nvme connect --fast_io_fail_tmo={number}")
    else:
        return (write, f"for good: nvme connect {option}")
    return (
        f"nvme connect {option}, one path after the other: never disconnect the last usable one",
    )


def _keeping_loss_timeout(controller: Controller) -> str:
    """What keeps ctrl_loss_tmo when the delay changes.

    The kernel holds it as a number of attempts (nvme_ctrl_loss_tmo_show): a sixth of the
    delay would be a sixth of the time.
    """
    seconds = controller.settings.ctrl_loss_timeout
    if seconds is None or math.isinf(seconds):
        return ""
    return f"; echo {_number(seconds)} > /sys/class/nvme/{controller.name}/ctrl_loss_tmo"


def _number(value: float) -> int:
    """A setting as the kernel takes it."""
    return _NEVER if math.isinf(value) else math.ceil(value)
