"""The scripts that come with the demonstration, for its own node; and those from files.

The default one is for watching. Each of the others makes one fault that lasts for
minutes, as long as alerts wait before they tell of it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from nvmeof_exporter.demo.script import ACTIONS, Script, ScriptError, Settings, Step

__all__ = ["SCRIPTS", "load_script"]

#: The paths of the array, and the ports of the second card, all on one switch.
_DB1 = "tcp:10.0.0.2:4420%h0"
_DB2 = "tcp:10.0.1.2:4420%h1"
_SECOND_SWITCH = ("h1", "h3")

_FAILOVERS = Script(
    length=115,
    about="one fault after the other, each for a few seconds",
    steps=(
        Step(0, 'All is well: nvmeof_subsystem_redundancy{level="redundant"} is 1 for both.'),
        Step(
            6,
            f"The target's port behind {_DB1} is gone: nvmeof_path_state says connecting, "
            "I/O moves at once.",
            "port-removed",
            (_DB1,),
        ),
        Step(
            14,
            "The port is back: live at the next attempt, nvmeof_path_outage_seconds counts one.",
            "port-restored",
            (_DB1,),
        ),
        Step(
            22,
            f"ANA group 1 is inaccessible over {_DB1}: no controller leaves live, yet I/O moves; "
            "see nvmeof_namespace_paths.",
            "ana",
            (_DB1,),
            1,
            "inaccessible",
        ),
        Step(
            30,
            "ANA group 1 is optimized again: nvmeof_failbacks_total.",
            "ana",
            (_DB1,),
            1,
            "optimized",
        ),
        Step(
            38,
            f"Packets over {_DB1} vanish: its state stays live while I/O stands still; "
            "see nvmeof_namespace_path_io_stalled_seconds.",
            "black-hole",
            (_DB1,),
        ),
        Step(
            52,
            "Packets flow again; how long it took: nvmeof_failover_last_duration_seconds.",
            "heal",
            (_DB1,),
        ),
        Step(
            60,
            "The link of h0 is down: nvmeof_path_link_up says so at once, nvmeof_path_state when "
            "the keep-alive is missed; the cause is link_down.",
            "link-down",
            ("h0",),
        ),
        Step(
            74,
            "The link is up: live at the next attempt.",
            "link-up",
            ("h0",),
        ),
        Step(
            84,
            "Both links of the scratch subsystem are down: redundancy lost, its I/O waits; "
            "see nvmeof_namespace_io_stalled_seconds.",
            "link-down",
            ("h2", "h3"),
        ),
        Step(
            92,
            "Both links are up, the waiting I/O ends: nvmeof_namespace_io_stall_duration_seconds.",
            "link-up",
            ("h2", "h3"),
        ),
        Step(
            101,
            f"{_DB2} is disconnected: nvmeof_path_state says missing, for it is remembered.",
            "disconnect",
            (_DB2,),
        ),
        Step(
            108,
            "It is connected again, as another nvmeX: the same path label, the same series.",
            "connect",
            (_DB2,),
        ),
    ),
)


_CALM = Script(length=60, steps=(Step(0, "All is well, and stays so."),), about="nothing at all")

#: The same first step for each that makes one fault: what follows is then a change.
_WELL = Step(0, "All is well.")
_FAULT = 20.0
_REPAIR = 260.0
_LENGTH = 900.0

#: Longer than any of the faults: no controller is given up, none is about to be.
_PATIENT = Settings(ctrl_loss_tmo=600)

_ONE_PATH_LOST = Script(
    length=_LENGTH,
    about="one of the array's two paths is refused for four minutes, I/O moves at once",
    node=_PATIENT,
    steps=(
        _WELL,
        Step(
            _FAULT,
            f"The target's port behind {_DB1} is gone: one path is left.",
            "port-removed",
            (_DB1,),
        ),
        Step(_REPAIR, "The port is back.", "port-restored", (_DB1,)),
    ),
)

_ALL_PATHS_LOST = Script(
    length=3600,
    about="both paths of the array are refused, for nearly an hour",
    node=Settings(ctrl_loss_tmo=-1),
    steps=(
        _WELL,
        Step(
            _FAULT,
            "Both ports of the target are gone: no path is left, I/O waits.",
            "port-removed",
            (_DB1, _DB2),
        ),
        Step(3590, "Both ports are back.", "port-restored", (_DB1, _DB2)),
    ),
)

_ALL_PATHS_LOST_AND_BACK = Script(
    length=_LENGTH,
    about="the same for one minute",
    node=_PATIENT,
    steps=(
        _WELL,
        Step(
            _FAULT,
            "Both ports of the target are gone: no path is left, I/O waits.",
            "port-removed",
            (_DB1, _DB2),
        ),
        Step(80, "Both ports are back, the waiting I/O ends.", "port-restored", (_DB1, _DB2)),
    ),
)

_SLOW_FAILOVER = Script(
    length=_LENGTH,
    about="a path falls silent for half a minute, with a keep-alive of 10 s",
    node=Settings(keep_alive_tmo=10, ctrl_loss_tmo=600),
    steps=(
        _WELL,
        Step(
            _FAULT,
            f"Packets over {_DB1} vanish: I/O stands still until the keep-alive is missed.",
            "black-hole",
            (_DB1,),
        ),
        Step(50, "Packets flow again.", "heal", (_DB1,)),
    ),
)

_SILENT_STALL = Script(
    length=_LENGTH,
    about="a path falls silent for a minute, and with time-outs of 120 s no state says so",
    node=Settings(keep_alive_tmo=120, ctrl_loss_tmo=600, io_timeout=120),
    steps=(
        _WELL,
        Step(
            _FAULT,
            f"Packets over {_DB1} vanish: every path stays live and optimized, no I/O ends.",
            "black-hole",
            (_DB1,),
        ),
        Step(80, "Packets flow again: the waiting I/O ends, nothing failed over.", "heal", (_DB1,)),
    ),
)

_PORT_DOWN = Script(
    length=_LENGTH,
    about="an RDMA port of the scratch subsystem is down for four minutes",
    node=_PATIENT,
    steps=(
        _WELL,
        Step(
            _FAULT,
            "The link of h3 is down, and port 1 of mlx5_3 with it; one path is left.",
            "link-down",
            ("h3",),
        ),
        Step(_REPAIR, "The link is up.", "link-up", ("h3",)),
    ),
)

_SWITCH_DOWN = Script(
    length=_LENGTH,
    about="the second switch is down for four minutes, and one path of each subsystem with it",
    node=_PATIENT,
    steps=(
        _WELL,
        Step(
            _FAULT, "The links of h1 and h3 are down, of one switch.", "link-down", _SECOND_SWITCH
        ),
        Step(_REPAIR, "The switch is back.", "link-up", _SECOND_SWITCH),
    ),
)

_POLICY_VIOLATION = Script(
    length=_LENGTH,
    about="all is well, but for a keep-alive of 60 s that no failover should wait for",
    node=Settings(keep_alive_tmo=60, ctrl_loss_tmo=600),
    steps=(Step(0, "All is well, while nothing is lost: see nvmeof_policy_violation."),),
)

#: By the names that ``--demo.script`` knows.
SCRIPTS = {
    "failovers": _FAILOVERS,
    "calm": _CALM,
    "one-path-lost": _ONE_PATH_LOST,
    "all-paths-lost": _ALL_PATHS_LOST,
    "all-paths-lost-and-back": _ALL_PATHS_LOST_AND_BACK,
    "slow-failover": _SLOW_FAILOVER,
    "silent-stall": _SILENT_STALL,
    "port-down": _PORT_DOWN,
    "switch-down": _SWITCH_DOWN,
    "policy-violation": _POLICY_VIOLATION,
}


def load_script(name: str) -> Script:
    """Return a script by its name in SCRIPTS, or read it from a YAML file (see ``script``).

    Raises:
        ScriptError: no such script or file, or it makes no sense.

    """
    if name in SCRIPTS:
        return SCRIPTS[name]
    try:
        content = Path(name).read_text(encoding="utf-8")
        script = msgspec.convert(yaml.safe_load(content), Script)
    except FileNotFoundError:
        known = ", ".join(SCRIPTS)
        raise ScriptError(f"{name}: neither a file nor one of {known}") from None
    except OSError as error:
        raise ScriptError(f"{name}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:  # msgspec's errors are ValueErrors
        reason = " ".join(str(error).split())
        raise ScriptError(f"{name}: {reason}") from error
    _check(name, script)
    return script


def _check(name: str, script: Script) -> None:
    if not script.steps:
        raise ScriptError(f"{name}: there are no steps")
    before = 0.0
    for number, step in enumerate(script.steps, 1):
        if step.do and step.do not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise ScriptError(f"{name}: step {number}: {step.do!r}: expected one of {known}")
        if not before <= step.at < script.length:
            raise ScriptError(
                f"{name}: step {number}: at {step.at:g}: expected order of time, "
                f"from 0 to below the length of {script.length:g}"
            )
        before = step.at
