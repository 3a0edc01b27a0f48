"""Writes the man page and the shell completions from the parsers that read the command line.

``python packaging/reference.py`` writes ``docs/man/nvmeof-exporter.8`` and
``packaging/completion/``; with ``--check`` it writes nothing and ends with status 1 where a
file is not what would be written. Run it in the environment of the exporter.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nvmeof_exporter import cli  # noqa: E402 - from this checkout, installed or not
from nvmeof_exporter.config.options import OPTIONS  # noqa: E402
from nvmeof_exporter.drill import command as drill  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = "nvmeof-exporter"
DEFAULT_COMMAND = "serve"

#: Commands that have commands of their own.
NESTED = {"drill": list(drill._COMMANDS)}

#: What the page says beside the flags: roff, in the order of man-pages(7).
NAME = r"""
.TH NVMEOF\-EXPORTER 8 "" "nvmeof\-exporter" "System Administration"
.SH NAME
nvmeof\-exporter \- Prometheus exporter for NVMe over Fabrics multipath
.SH SYNOPSIS
.B nvmeof\-exporter
.RI [ COMMAND ]
.RI [ FLAGS ]
"""
DESCRIPTION = r"""
.SH DESCRIPTION
.B nvmeof\-exporter
watches every path of this host's NVMe\-oF subsystems (native multipath) and exports their true
state, how long I/O really stood still at a failover, and whether the host survives the next one.
It reads what the kernel shows below
.I /sys
and hears its events; it never writes to the machine and sends no command to a device.
.PP
Metrics are served at
.I /metrics
on port 10067.
.I /\-/healthy
fails when polling has stopped,
.I /\-/ready
before the first poll is done.
"""
REST = r"""
.SH CONFIGURATION FILE
YAML; every flag is a key, nested by its dots:
.B \-\-poll.interval=100ms
is
.IR interval
below
.IR poll .
A flag wins over a variable, a variable over the file. The keys
.I expected
(what each subsystem must have) and
.I policy
are of the file alone.
.B \-\-config.check
says what is wrong, with file and line.
.SH SIGNALS
.TP
.B SIGHUP
Read the configuration file again. A bad one is refused with a line in the log, and the old
settings stay.
.TP
.BR SIGTERM ", " SIGINT
End in good order.
.SH ENVIRONMENT
Every flag has the variable in brackets. Beside them:
.TP
.BR NOTIFY_SOCKET ", " WATCHDOG_USEC
Where systemd hears that the service has started, is alive, reloads and ends; see
.BR sd_notify (3).
The poll loop gives the signs of life: one that hangs gives none.
.TP
.BR LISTEN_FDS ", " LISTEN_PID
The sockets that systemd hands over
.RB ( \-\-web.systemd\-socket ).
.TP
.B STATE_DIRECTORY
The default of
.BR \-\-path.state .
.SH FILES
.TP
.I /var/lib/nvmeof\-exporter/paths.json
The paths this node has had.
.TP
.I /etc/default/nvmeof\-exporter
Variables of the Debian package's service.
.TP
.I /etc/nvmeof\-exporter/config.yaml
Its configuration file.
.SH EXIT STATUS
0 when all is well, 2 for bad input, with one line on standard error that says what was found and
what is expected. A command's own statuses are told with it.
.SH SEE ALSO
.BR nvme (1),
.BR systemd.service (5)
"""

_FILES = {"PATH", "FILE", "DIR", "DIRECTORY"}
_OPTION_FIELDS = {option.field for option in OPTIONS}


class _Caught(Exception):  # noqa: N818 - a message, not an error
    """Carries the parser out of the command that was about to use it."""


@dataclass(frozen=True)
class Command:
    """A command, of one word or two, with the parser that reads its arguments."""

    name: str
    parser: argparse.ArgumentParser

    def groups(self) -> Iterator[tuple[str, str, list[argparse.Action]]]:
        """Title, description and flags of each group that has any."""
        for group in self.parser._action_groups:
            actions = [a for a in group._group_actions if a.help != argparse.SUPPRESS]
            if actions:
                yield group.title or "", group.description or "", actions

    def own(self) -> list[argparse.Action]:
        """Arguments and flags that are not of the table of options."""
        return [
            action
            for _, _, actions in self.groups()
            for action in actions
            if action.dest not in _OPTION_FIELDS and action.dest not in ("help", "version")
        ]

    def flags(self) -> list[str]:
        """Every flag."""
        return sorted(
            flag
            for _, _, actions in self.groups()
            for action in actions
            for flag in action.option_strings
        )


def commands() -> list[Command]:
    """Let every command make its parser, and keep it from going on."""
    every = [[name] for name in cli._COMMANDS]
    every += [[outer, inner] for outer, names in NESTED.items() for inner in names]
    return [Command(" ".join(words), _parser_of(words)) for words in every]


def _parser_of(words: list[str]) -> argparse.ArgumentParser:
    def catch(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise _Caught(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_known_args", catch):
        try:
            cli._run([*words, "--help"])
        except _Caught as caught:
            parser: argparse.ArgumentParser = caught.args[0]
            return parser
    raise LookupError(f"{' '.join(words)}: has no parser")


# -- the man page ----------------------------------------------------------------------------


def manual(every: list[Command]) -> str:
    """The page nvmeof-exporter(8), in roff."""
    (serve,) = (command for command in every if command.name == DEFAULT_COMMAND)
    parts = [f'.\\" Written by packaging/reference.py{NAME}{DESCRIPTION}.SH COMMANDS\n']
    for command in every:
        what = command.parser.description or ""
        if command is serve:
            what = "Watches and serves; this is what runs where no command is given."
        usage = command.parser.usage or ""
        arguments = usage.removeprefix(f"{PROGRAM} {command.name}").strip()
        arguments = "" if command is serve else arguments
        parts.append(f".SS {_roff(command.name)} {_roff(arguments)}\n{_roff(what)}\n")
        parts += map(_entry, command.own())
    parts.append(".SH OPTIONS\nThese are of every command, as far as they concern it.\n")
    for title, _, actions in serve.groups():
        heading = "general" if title == "options" else title
        parts.append(f".SS {_roff(heading)}\n")
        parts += map(_entry, actions)
    parts.append(REST)
    return re.sub(r"\n{2,}", "\n", "".join(parts))


def _entry(action: argparse.Action) -> str:
    if action.option_strings:
        value = _value(action)
        names = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in action.option_strings)
        head = f"{names} \\fI{_roff(value)}\\fR" if value else names
    else:
        head = f"\\fI{_roff(str(action.metavar or action.dest))}\\fR"
    text = (action.help or "").replace("%%", "%")
    return f".TP\n{head}\n{_roff(text[:1].upper() + text[1:])}\n"


def _value(action: argparse.Action) -> str:
    """The name of a flag's value, empty for a switch."""
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        name = str(action.metavar)
    elif action.choices is not None:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        name = action.dest.upper()
    return f"[{name}]" if action.nargs == "?" else name


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return "\n".join(f"\\&{s}" if s[:1] in (".", "'") else s for s in escaped.splitlines())


# -- shell completions -----------------------------------------------------------------------


def _words(action: argparse.Action) -> list[str]:
    """The words that a flag's value may be; empty where it is no choice."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    metavar = str(action.metavar or "")
    return metavar[1:-1].split(",") if metavar.startswith("{") else []


def bash(every: list[Command]) -> str:
    """The completion for bash."""
    flags = "\n".join(f'        "{c.name}") flags="{" ".join(c.flags())}" ;;' for c in every)
    outer = "|".join(c.name for c in every if " " not in c.name)
    inner = "|".join(f'"{c.name}"' for c in every if " " in c.name)
    nested = "\n".join(
        f'        {name}) [[ $COMP_CWORD -eq 2 ]] && flags="{" ".join(names)} $flags" ;;'
        for name, names in NESTED.items()
    )
    values = "\n".join(_cases(every, '            COMPREPLY=($(compgen -W "{}" -- "$cur")) ;;'))
    files = "|".join(_of_files(every))
    return f"""\
# bash completion of nvmeof-exporter. Written by packaging/reference.py
_nvmeof_exporter() {{
    local cur prev word command={DEFAULT_COMMAND} flags
    COMPREPLY=()
    # A flag and its value may be one word; readline splits them at the equals sign.
    cur=${{COMP_WORDS[COMP_CWORD]}}
    prev=${{COMP_WORDS[COMP_CWORD-1]}}
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    case "${{COMP_WORDS[1]}}" in
        {outer}) [[ $COMP_CWORD -gt 1 ]] && command=${{COMP_WORDS[1]}} ;;
    esac
    case "$command ${{COMP_WORDS[2]}}" in
        {inner}) [[ $COMP_CWORD -gt 2 ]] && command+=" ${{COMP_WORDS[2]}}" ;;
    esac
    case "$command:$prev" in
{values}
        {files})
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -f -- "$cur")) ;;
    esac
    [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return
    case "$command" in
{flags}
    esac
    case "$command" in
{nested}
    esac
    if [[ $COMP_CWORD -eq 1 ]]; then flags="{outer.replace("|", " ")} $flags"; fi
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
}}
complete -F _nvmeof_exporter nvmeof-exporter
"""


def _cases(every: list[Command], answer: str) -> Iterator[str]:
    """A case per flag that is a choice."""
    for pattern, action in _by_flag(every).items():
        if words := _words(action):
            yield f"        {pattern})\n{answer.format(' '.join(words))}"


def _of_files(every: list[Command]) -> list[str]:
    """Flags whose value is a file."""
    return [pattern for pattern, action in _by_flag(every).items() if action.metavar in _FILES]


def _by_flag(every: list[Command]) -> dict[str, argparse.Action]:
    """Every flag with a value, as a pattern for "command:flag": some are of every command."""
    return {
        f"{'*' if action.dest in _OPTION_FIELDS else _pattern(command.name)}:{flag}": action
        for command in every
        for _, _, actions in command.groups()
        for action in actions
        for flag in action.option_strings
        if action.nargs != 0 and not flag.startswith("--no-")
    }


def _pattern(name: str) -> str:
    return f'"{name}"' if " " in name else name


def zsh(every: list[Command]) -> str:
    """The completion for zsh."""
    outer = [c for c in every if " " not in c.name]
    names = "\n".join(f"        {_quoted(c.name + ':' + _short(c))}" for c in outer)
    cases = "\n".join(f'        "{c.name}") flags=(\n{_zsh_flags(c)}\n        ) ;;' for c in every)
    nested = "\n".join(
        f"""\
    if [[ $command == {name} ]]; then
        if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
            _values command {" ".join(names)}
            return
        elif [[ " {" ".join(names)} " == *" $words[2] "* ]]; then
            command="{name} $words[2]"
            shift words
            (( CURRENT-- ))
        fi
    fi"""
        for name, names in NESTED.items()
    )
    return f"""\
#compdef nvmeof-exporter
# Written by packaging/reference.py
_nvmeof_exporter() {{
    local command={DEFAULT_COMMAND}
    local -a names flags
    names=(
{names}
    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe command names
        return
    fi
    case $words[2] in
        {"|".join(c.name for c in outer)})
            command=$words[2]
            shift words
            (( CURRENT-- ))
            ;;
    esac
{nested}
    case $command in
{cases}
    esac
    _arguments -S $flags
}}
_nvmeof_exporter "$@"
"""


def _short(command: Command) -> str:
    if command.name == DEFAULT_COMMAND:
        return "watches and serves"
    return (command.parser.description or "").partition(".")[0].partition(":")[0]


def _zsh_flags(command: Command) -> str:
    lines = []
    for _, _, actions in command.groups():
        for action in actions:
            about = re.split(r"[.;:\[(]", (action.help or "").strip())[0].strip()
            for flag in action.option_strings:
                value = "" if action.nargs == 0 or flag.startswith("--no-") else _zsh_value(action)
                sign = "=" if value else ""
                lines.append(f"            {_quoted(f'*{flag}{sign}[{about}]{value}')}")
            if not action.option_strings:
                lines.append(f"            {_quoted(f':{action.metavar or action.dest}:')}")
    return "\n".join(lines)


def _zsh_value(action: argparse.Action) -> str:
    if words := _words(action):
        return f":value:({' '.join(words)})"
    if action.metavar in _FILES:
        return ":file:_files"
    return f":{str(action.metavar or action.dest).lower()}:"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


FILES: dict[str, Callable[[list[Command]], str]] = {
    "docs/man/nvmeof-exporter.8": manual,
    "packaging/completion/nvmeof-exporter.bash": bash,
    "packaging/completion/_nvmeof-exporter": zsh,
}


def main() -> int:
    """Write or check every file."""
    parser = argparse.ArgumentParser(description="Writes the man page and the completions.")
    parser.add_argument("--check", action="store_true", help="Write nothing; compare.")
    check = parser.parse_args().check
    every = commands()
    stale = []
    for name, make in FILES.items():
        path, text = ROOT / name, make(every)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if check and stale:
        sys.stderr.write(f"not what packaging/reference.py writes: {', '.join(stale)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
