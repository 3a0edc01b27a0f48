"""The exporter's Debian package under a real systemd: installed, supervised, confined.

systemd is the guest's first process and ``run.py`` a service of its own; see ``systemd.sh``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kernel.guest.exporter import Scrape
from tests.kernel.guest.logs import say
from tests.kernel.guest.scenario import Registry
from tests.kernel.guest.waiting import await_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.guest.lab import Lab

__all__ = ["REGISTRY"]

REGISTRY = Registry(exporter=False, scenario_seconds=600, package=True)

_UNIT = "nvmeof-exporter.service"
_SOCKET = "nvmeof-exporter.socket"
_URL = "http://127.0.0.1:10067"
_DROP_INS = Path(f"/etc/systemd/system/{_UNIT}.d")
_EXAMPLES = Path("/usr/share/doc/nvmeof-exporter/examples")
_DEFAULTS = Path("/etc/default/nvmeof-exporter")
_CONFIG = Path("/etc/nvmeof-exporter/config.yaml")
_RESTRICT = Path("/proc/sys/kernel/dmesg_restrict")
_BUSY = Path("/run/busy.pid")

#: What a start may take on a slow machine.
_START_SECONDS = 300.0

_PROPERTIES = ("ActiveState", "SubState", "MainPID", "NRestarts", "Result", "StatusText", "User")


@REGISTRY.scenario
def installed_it_sees_real_paths_as_nobody_in_particular(lab: Lab) -> Any:
    """`dpkg -i` starts the unit as shipped; it is unprivileged, and sees what there is."""
    _RESTRICT.write_text("1")
    _install()
    with lab.fabric() as fabric:
        scrape = _scrape_when("nvmeof_subsystem_paths_usable", 2, nqn=fabric.nqn)
        time.sleep(6)  # the status of systemctl is told every five seconds
        described = _show()
        process = Path("/proc") / described["MainPID"]
        return {
            "properties": described,
            "process": _status_of(process),
            "command": (process / "cmdline").read_text().split("\0")[:-1],
            "state": sorted(p.name for p in Path("/var/lib/private/nvmeof-exporter").iterdir()),
            "live": sorted(
                labels["path"]
                for labels, value in scrape.matching("nvmeof_path_state", state="live")
                if value == 1 and labels["nqn"] == fabric.nqn
            ),
            "paths": sorted(fabric.label(link) for link in (1, 2)),
            "interfaces": sorted(
                labels["netdev"]
                for labels, _ in scrape.matching("nvmeof_path_info", nqn=fabric.nqn)
            ),
            "links_up": [v for _, v in scrape.matching("nvmeof_path_link_up", nqn=fabric.nqn)],
            "collectors": {
                labels["collector"]: value
                for labels, value in scrape.matching("nvmeof_exporter_collector_success")
            },
            "start_time": scrape.value("process_start_time_seconds"),
            "now": time.time(),
            "exposure": _exposure(),
            "journal": _journal(),
        }


@REGISTRY.scenario
def a_reload_keeps_the_process_and_a_mistake_the_settings(lab: Lab) -> Any:
    """`systemctl reload` takes over what is good, refuses what is not, and loses no poll."""
    _install()
    before = _show()
    with lab.fabric() as fabric:
        _scrape_when("nvmeof_subsystem_paths_usable", 2, nqn=fabric.nqn)
        good = f"expected: [{{nqn: {fabric.nqn}, count: 7}}]\n"
        _CONFIG.write_text(good)
        reloaded = _reload()
        _scrape_when("nvmeof_subsystem_paths_expected", 7, nqn=fabric.nqn)
        _CONFIG.write_text("expect: []\n")
        refused = _reload()
        after = _show()
        kept = _scrape().value("nvmeof_subsystem_paths_expected", nqn=fabric.nqn)
        _CONFIG.write_text("")
        _reload()
    return {
        "pids": [before["MainPID"], after["MainPID"]],
        "states": [before["ActiveState"], after["ActiveState"]],
        "reloaded": reloaded,
        "refused": refused,
        "kept": kept,
        "journal": _journal(),
    }


@REGISTRY.scenario
def a_poller_that_hangs_is_restarted_by_the_watchdog(lab: Lab) -> Any:
    """`kill -STOP`: no sign of life for half a minute, and another process takes over."""
    _install()
    before = _show()
    stopped = time.monotonic()
    os.kill(int(before["MainPID"]), signal.SIGSTOP)
    await_(lambda: not _runs(before), 120, "the watchdog")
    noticed = time.monotonic() - stopped
    _await_another(before)
    return {
        "seconds": noticed,
        "restarts": int(_show()["NRestarts"]) - int(before["NRestarts"]),
        "answers": "nvmeof_exporter_build_info" in _get("/metrics"),
        "journal": _journal(),
    }


@REGISTRY.scenario
def a_killed_exporter_comes_back_with_its_memory(lab: Lab) -> Any:
    """`kill -9` while a path is gone: the next process knows what is missing."""
    _install()
    with lab.fabric() as fabric:
        _scrape_when("nvmeof_subsystem_paths_usable", 2, nqn=fabric.nqn)
        fabric.paths[2].disconnect()
        _scrape_when("nvmeof_path_state", 1, nqn=fabric.nqn, path=fabric.label(2), state="missing")
        before = _show()
        os.kill(int(before["MainPID"]), signal.SIGKILL)
        _await_another(before)
        scrape = _scrape()
        restarts = int(_show()["NRestarts"]) - int(before["NRestarts"])
        _run("nvmeof-exporter", "forget", fabric.nqn, fabric.label(2))
        _scrape_when(
            "nvmeof_path_state", None, nqn=fabric.nqn, path=fabric.label(2), state="missing"
        )
        _restart()
        return {
            "forgotten": _scrape().value("nvmeof_subsystem_paths_expected", nqn=fabric.nqn),
            "warnings": [line for line in _journal() if "paths.json" in line],
            "restarts": restarts,
            "missing": scrape.value(
                "nvmeof_path_state", nqn=fabric.nqn, path=fabric.label(2), state="missing"
            ),
            "live": scrape.value(
                "nvmeof_path_state", nqn=fabric.nqn, path=fabric.label(1), state="live"
            ),
        }


@REGISTRY.scenario
def the_kernel_log_takes_a_drop_in_where_it_is_restricted(lab: Lab) -> Any:
    """With kernel.dmesg_restrict off nothing is needed; with it on, one capability."""
    _install()
    found = {}
    restricted = _RESTRICT.read_text()
    try:
        for name, restrict, drop_in in (
            ("open", "0", False),
            ("restricted", "1", False),
            ("drop-in", "1", True),
        ):
            _RESTRICT.write_text(restrict)
            if drop_in:
                _DROP_INS.mkdir(parents=True)
                (_DROP_INS / "kernel-log.conf").write_bytes(
                    (_EXAMPLES / "kernel-log.conf").read_bytes()
                )
                _systemctl("daemon-reload")
            _restart()
            found[name] = {
                "kmsg": _scrape().value("nvmeof_exporter_collector_success", collector="kmsg"),
                "process": _status_of(Path("/proc") / _show()["MainPID"]),
                "exposure": _exposure(),
            }
    finally:
        _RESTRICT.write_text(restricted)
        if _DROP_INS.exists():
            (_DROP_INS / "kernel-log.conf").unlink()
            _DROP_INS.rmdir()
        _systemctl("daemon-reload")
        _restart()
    return found


@REGISTRY.scenario
def with_its_socket_a_restart_refuses_no_scrape(lab: Lab) -> Any:
    """The port is held by systemd: a scrape during a restart waits, and is answered."""
    _install()
    settings = _DEFAULTS.read_text()
    try:
        with _steady_clock():
            _systemctl("stop", _UNIT)
            _DEFAULTS.write_text(f"{settings}NVMEOF_EXPORTER_WEB_SYSTEMD_SOCKET=true\n")
            started = [_systemctl("start", _SOCKET), _systemctl("start", _UNIT)]
            before = _show()
            _systemctl("restart", "--no-block", _UNIT)
            answers: list[str] = []
            while _show()["MainPID"] in ("0", before["MainPID"]) or answers[-1:] != ["answered"]:
                answers.append(_answer())
        return {
            "started": started,
            "answers": sorted(set(answers)),
            "journal": _journal(),
        }
    finally:
        _DEFAULTS.write_text(settings)
        _systemctl("stop", _SOCKET, _UNIT)
        _restart()


@REGISTRY.scenario
def removed_it_is_gone_and_purged_it_has_never_been(lab: Lab) -> Any:
    """`dpkg --remove` stops the service and keeps what it remembers; `--purge` keeps nothing."""
    _install()
    remembers = Path("/var/lib/private/nvmeof-exporter")
    found = {}
    for action in ("remove", "purge"):
        with _steady_clock():
            _run("dpkg", "--no-triggers", f"--{action}", "nvmeof-exporter")
        found[action] = {
            "active": _systemctl("is-active", _UNIT)[1].strip(),
            "memory": remembers.exists(),
            "settings": _DEFAULTS.exists(),
            "program": Path("/usr/lib/nvmeof-exporter").exists(),
        }
    return found


# -- what they have in common ----------------------------------------------------------------


@contextmanager
def _steady_clock() -> Iterator[None]:
    """Keep the processor from ever being idle, so that no clock leaps.

    Here programs are read from the host that have deadlines: systemctl waits 25 s for systemd,
    and systemd a minute for the exporter.
    """
    endless = ["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]
    with subprocess.Popen(endless) as spinning:
        try:
            yield
        finally:
            spinning.kill()


def _end_steady_boot() -> None:
    """End what kept the processor busy while systemd started; see ``systemd.sh``."""
    if _BUSY.exists():
        os.kill(int(_BUSY.read_text()), signal.SIGKILL)
        _BUSY.unlink()


def _install() -> None:
    """Install the package unless it is there, and await its service."""
    with _steady_clock():
        _end_steady_boot()
        if not Path("/usr/bin/nvmeof-exporter").exists():
            (package,) = Path(os.environ["LAB_PACKAGE"]).glob("*.deb")
            # Without triggers: the manual's index has nothing to do with it, and takes minutes.
            say(_run("dpkg", "--no-triggers", "--install", str(package)))
        _await_active()


def _reload() -> tuple[int, str]:
    with _steady_clock():
        return _systemctl("reload", _UNIT)


def _restart() -> None:
    with _steady_clock():
        _systemctl("restart", _UNIT)
        _await_active()


def _runs(unit: dict[str, str]) -> bool:
    """Whether the main process of a unit that was shown is still there."""
    return _show()["MainPID"] == unit["MainPID"]


def _await_another(unit: dict[str, str]) -> None:
    """Await another main process, and that it has started."""
    await_(lambda: _show()["MainPID"] not in ("0", unit["MainPID"]), 120, "another process")
    with _steady_clock():
        _await_active()


def _await_active() -> None:
    await_(lambda: _show()["ActiveState"] == "active", _START_SECONDS, f"{_UNIT} active")
    say(f"{_UNIT} is active")


def _show() -> dict[str, str]:
    """Ask systemd for the unit's properties."""
    told = _run("systemctl", "show", _UNIT, f"--property={','.join(_PROPERTIES)}")
    return dict(line.split("=", 1) for line in told.splitlines())


def _systemctl(*arguments: str) -> tuple[int, str]:
    """Run systemctl; return its exit status and all that it wrote."""
    done = subprocess.run(
        ["systemctl", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def _exposure() -> float:
    """What systemd makes of the running unit, 0 (nothing to lose) to 10."""
    *_, verdict = _run("systemd-analyze", "security", "--no-pager", _UNIT).splitlines()
    return float(verdict.partition(f"{_UNIT}: ")[2].split()[0])


def _journal() -> list[str]:
    """What the service has written."""
    return _run("journalctl", "--no-pager", "-o", "cat", "-u", _UNIT).splitlines()[-400:]


def _run(*command: str) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def _status_of(process: Path) -> dict[str, str]:
    """The lines of /proc/PID/status that say what a process may do."""
    lines = dict(
        line.split(":\t", 1)
        for line in (process / "status").read_text().splitlines()
        if ":\t" in line
    )
    wanted = ("Uid", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    return {name: lines[name] for name in wanted}


def _get(path: str, seconds: float = 20) -> str:
    with urllib.request.urlopen(_URL + path, timeout=seconds) as answer:  # noqa: S310 - http, made here
        return str(answer.read(), "utf-8")


def _answer() -> str:
    """What becomes of a request that may wait for as long as a start takes."""
    try:
        return "answered" if "nvmeof_exporter_build_info" in _get("/metrics", 600) else "strange"
    except OSError as error:
        return str(error)


def _scrape(about: str = "") -> Scrape:
    return Scrape(_get("/metrics"), about)


def _scrape_when(name: str, value: float | None, **labels: str) -> Scrape:
    """The first whole scrape in which ``name`` is ``value``, or absent."""
    await_(lambda: _scrape(name).value(name, **labels) == value, 60, f"{name}{labels} = {value}")
    return _scrape()
