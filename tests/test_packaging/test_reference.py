"""The man page and the completions: made from the parsers, and usable in a shell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nvmeof_exporter.config.options import OPTIONS

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs/man/nvmeof-exporter.8"
BASH = ROOT / "packaging/completion/nvmeof-exporter.bash"
ZSH = ROOT / "packaging/completion/_nvmeof-exporter"


def test_what_is_kept_is_what_the_parsers_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "packaging/reference.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}run `make docs`"


def test_the_manual_has_every_flag_with_its_variable_and_default() -> None:
    page = MANUAL.read_text().replace("\\-", "-").replace("\\&", "")
    for option in OPTIONS:
        assert f"\\fB{option.flag}\\fR" in page
        assert f"[{option.variable}]" in page
    assert "(default: 100ms)" in page


def complete(*words: str) -> list[str]:
    """What bash offers for the last of these words; "=" is one of its own, as in readline."""
    *_, current = words
    script = f"""
        source {BASH}
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        $(complete -p nvmeof-exporter | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stderr == ""
    assert all(offer.startswith(current) or current == "=" for offer in done.stdout.split())
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["nvmeof-exporter", "ch"], ["check"]),
        (["nvmeof-exporter", "--log.f"], ["--log.format"]),
        (["nvmeof-exporter", "--log.format", "="], ["logfmt", "json"]),
        (["nvmeof-exporter", "--log.format", "=", "j"], ["json"]),
        (["nvmeof-exporter", "serve", "--log.level", "w"], ["warning"]),
        (["nvmeof-exporter", "check", "--pres"], ["--preset"]),
        (["nvmeof-exporter", "check", "--output", "t"], ["text"]),
        (["nvmeof-exporter", "check", "-o", "pl"], ["plugin"]),
        (["nvmeof-exporter", "drill", "verify", "-o", ""], ["text", "json"]),
        (["nvmeof-exporter", "drill", "ver"], ["verify"]),
        (["nvmeof-exporter", "drill", "verify", "--reco"], ["--record"]),
        (["nvmeof-exporter", "serve", "--pres"], []),
        (["nvmeof-exporter", "--config.file", "/et"], ["/etc"]),
    ],
    ids=" ".join,
)
def test_bash_offers_commands_flags_and_values(words: list[str], offered: list[str]) -> None:
    assert complete(*words) == offered


def test_bash_offers_every_command_first() -> None:
    offered = complete("nvmeof-exporter", "")
    assert {"serve", "demo", "check", "forget"} <= set(offered)
    assert "--poll.interval" in offered


@pytest.mark.packaging
def test_zsh_can_read_its_completion() -> None:
    done = subprocess.run(["zsh", "-n", ZSH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_zsh_is_told_of_every_flag() -> None:
    flags = set(re.findall(r"'\*(--[a-z][a-z.-]*)", ZSH.read_text()))
    assert {option.flag for option in OPTIONS} <= flags
