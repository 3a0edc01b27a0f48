"""Configuration: one table of options; flags, environment and file; one frozen result."""

from nvmeof_exporter.config.errors import ConfigError
from nvmeof_exporter.config.flags import FlagParser, StrictParser, given_flags
from nvmeof_exporter.config.load import load, origin_of, reload, resolve
from nvmeof_exporter.config.model import Config, ExpectedSubsystem, Origin
from nvmeof_exporter.config.values import ListenAddress

__all__ = [
    "Config",
    "ConfigError",
    "ExpectedSubsystem",
    "FlagParser",
    "ListenAddress",
    "Origin",
    "StrictParser",
    "given_flags",
    "load",
    "origin_of",
    "reload",
    "resolve",
]
