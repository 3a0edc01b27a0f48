"""From flags, environment and file to one checked configuration.

Flags win over the environment, the environment over the file, the file over
the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvmeof_exporter.config.errors import ConfigError
from nvmeof_exporter.config.flags import FlagParser, given_flags
from nvmeof_exporter.config.found import Found, decode
from nvmeof_exporter.config.model import THIS_MACHINE, Config, Origin
from nvmeof_exporter.config.options import OPTIONS, OPTIONS_BY_NAME
from nvmeof_exporter.config.values import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvmeof_exporter.config.model import ExpectedSubsystem
    from nvmeof_exporter.config.options import Option
    from nvmeof_exporter.policy import Policy

__all__ = ["found_outside_file", "load", "origin_of", "reload", "resolve"]


def load(
    argv: Sequence[str], environ: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> Config:
    """The configuration for command line flags and an environment.

    ``defaults`` replaces defaults of the table, as texts by option name. Reads
    the configuration file, if one is named. Raises ConfigError.
    """
    parser = FlagParser("nvmeof-exporter", "", defaults=defaults)
    return resolve(origin_of(given_flags(parser.parse(argv)), environ, defaults))


def reload(config: Config) -> Config:
    """The same flags, environment and file name again, with the file's present contents.

    Raises ConfigError when they cannot be used; the old configuration stays good.
    """
    return resolve(config.origin)


def origin_of(
    flags: Mapping[str, tuple[str, ...]],
    environ: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
) -> Origin:
    """What a configuration is made from; of the environment only the known variables are kept.

    Unknown ``NVMEOF_EXPORTER_…`` variables are no error: Kubernetes invents
    some for a Service of that name.
    """
    names = {option.variable for option in OPTIONS}
    names |= {option.default_variable for option in OPTIONS if option.default_variable}
    known = {name: environ[name] for name in names if name in environ}
    return Origin(dict(flags), known, dict(defaults or {}))


def resolve(origin: Origin) -> Config:
    """Find, decode and check every option. Raises ConfigError."""
    given = found_outside_file(origin)
    expected: tuple[ExpectedSubsystem, ...] = ()
    policy: Policy | None = None
    file_name = _value(OPTIONS_BY_NAME["config.file"], given, origin)
    if file_name:
        # YAML costs a fifth of the start: only who has a file pays for it.
        from nvmeof_exporter.config.file import read_file  # noqa: PLC0415

        contents = read_file(str(file_name))
        given = {**contents.options, **given}
        expected, policy = contents.expected, contents.policy
    values: dict[str, Any] = {option.field: _value(option, given, origin) for option in OPTIONS}
    _fit_incident_interval(values, given)
    _keep_other_trees_apart(values, given, origin)
    return Config(**values, expected=expected, policy=policy, origin=origin)


def found_outside_file(origin: Origin) -> dict[str, Found]:
    """What flags and environment say, by option name."""
    given: dict[str, Found] = {}
    for option in OPTIONS:
        if option.name in origin.flags:
            given[option.name] = Found(origin.flags[option.name], option.flag)
        elif option.variable in origin.environ:
            text = origin.environ[option.variable]
            texts = tuple(text.split(",")) if option.repeatable else (text,)
            given[option.name] = Found(texts, option.variable)
    return given


def _value(option: Option, given: Mapping[str, Found], origin: Origin) -> object:
    if option.name in given:
        return decode(option, given[option.name])
    if option.default_variable in origin.environ:
        # systemd lists several directories with colons; the first is ours.
        text = origin.environ[option.default_variable].partition(":")[0]
        return decode(option, Found((text,), option.default_variable))
    default = origin.defaults.get(option.name, option.default)
    if default is None:
        return None
    return decode(option, Found((default,), f"default of {option.flag}"))


def _fit_incident_interval(values: dict[str, Any], given: Mapping[str, Found]) -> None:
    """During an incident polling is never slower: refuse that where asked for, else follow."""
    normal, incident = values["poll_interval"], values["poll_incident_interval"]
    if incident <= normal:
        return
    found = given.get("poll.incident-interval")
    if found is not None:
        raise ConfigError(
            f"{found.where}: found {format_duration(incident)}, expected at most the "
            f"poll.interval of {format_duration(normal)}"
        )
    values["poll_incident_interval"] = normal


def _keep_other_trees_apart(
    values: dict[str, Any], given: Mapping[str, Found], origin: Origin
) -> None:
    """Keep no memory of a captured tree unless asked to: its paths are none of this node's."""
    asked = "path.state" in given or "path.state" in origin.defaults
    if not asked and values["path_sysfs"] != THIS_MACHINE:
        values["path_state"] = ""
