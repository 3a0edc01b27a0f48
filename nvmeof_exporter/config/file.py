"""The configuration file: YAML, nested by the dots of the option names.

The node tree is decoded, not what a YAML loader makes of it: nodes know their
line, and a scalar's text goes to the same parser as a flag's.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

import yaml

from nvmeof_exporter.config.errors import ConfigError, quoted, suggestion
from nvmeof_exporter.config.found import Found
from nvmeof_exporter.config.options import OPTIONS, OPTIONS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nvmeof_exporter.config.model import ExpectedSubsystem
    from nvmeof_exporter.policy import Policy

__all__ = [
    "FileContents",
    "FileNode",
    "compose",
    "parse_file",
    "read_file",
    "read_regular_file",
]

_LARGEST_FILE = 1 << 20

_EXPECTED = "expected"
_POLICY = "policy"
_NULL_TAG = "tag:yaml.org,2002:null"

_SECTIONS = {
    option.name[:end]
    for option in OPTIONS
    for end, letter in enumerate(option.name)
    if letter == "."
}
_KEYS = [option.name for option in OPTIONS if option.in_file]
_KEYS += [*sorted(_SECTIONS), _EXPECTED, _POLICY]


class FileContents(NamedTuple):
    """What a file sets: options by name, the subsystems it expects, and the policy."""

    options: dict[str, Found]
    expected: tuple[ExpectedSubsystem, ...]
    policy: Policy | None = None


class FileNode(NamedTuple):
    """A node of the file with its name for messages."""

    node: yaml.Node
    file: str
    name: str

    @property
    def where(self) -> str:
        """``file:line: name``."""
        return f"{self.place}: {self.name}" if self.name else self.place

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.node.start_mark.line + 1}"

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return bool(self.node.tag == _NULL_TAG)

    @property
    def is_section(self) -> bool:
        """Whether a mapping stands there, or nothing."""
        return self.is_null or isinstance(self.node, yaml.MappingNode)

    def refuse(self, expected: str) -> ConfigError:
        """The error that says what stands there and what should."""
        return ConfigError(f"{self.where}: found {self._describe()}, expected {expected}")

    def text(self, expected: str) -> str:
        """The text of a scalar."""
        if self.is_null or not isinstance(self.node, yaml.ScalarNode):
            raise self.refuse(expected)
        return str(self.node.value)

    def items(self, expected: str) -> Iterator[FileNode]:
        """The elements of a list, named ``name[0]`` and so on."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.refuse(expected)
        for index, item in enumerate(self.node.value):
            yield FileNode(item, self.file, f"{self.name}[{index}]")

    def entries(self, expected: str) -> Iterator[tuple[FileNode, FileNode]]:
        """Keys and values of a mapping; nothing at all is an empty one."""
        if self.is_null:
            return
        if not isinstance(self.node, yaml.MappingNode):
            raise self.refuse(expected)
        seen: dict[str, int] = {}
        for key_node, value_node in self.node.value:
            key = FileNode(key_node, self.file, self.name)
            text = key.text("a word as key")
            name = f"{self.name}.{text}" if self.name else text
            line = key_node.start_mark.line + 1
            if text in seen:
                raise ConfigError(
                    f"{key.place}: {quoted(name)} is given twice, first in line {seen[text]}"
                )
            seen[text] = line
            yield FileNode(key_node, self.file, name), FileNode(value_node, self.file, name)

    def fields(self, known: Sequence[str], expected: str) -> dict[str, FileNode]:
        """The values of a mapping by key, which has to be one of ``known``."""
        found: dict[str, FileNode] = {}
        for key, value in self.entries(expected):
            name = key.name.removeprefix(f"{self.name}.")
            if name not in known:
                raise ConfigError(
                    f"{key.place}: unknown key {quoted(key.name)}{suggestion(name, known)}"
                )
            found[name] = value
        return found

    def _describe(self) -> str:
        if self.is_null:
            return "nothing"
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        return quoted(str(self.node.value))


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_file(path: str) -> FileContents:
    """Read and decode a configuration file. Raises ConfigError with file, line and reason."""
    return parse_file(read_regular_file(path)[0], path)


def read_regular_file(path: str) -> tuple[bytes, os.stat_result]:
    """The contents of a file of reasonable size, and its state when they were read.

    Raises ConfigError with the file and the reason.
    """
    try:
        # Not blocking: what is opened may be a pipe that nobody writes to.
        with open(path, "rb", opener=_open_without_waiting) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise ConfigError(f"{path}: is no regular file")
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_FILE:
        raise ConfigError(f"{path}: is larger than {_LARGEST_FILE >> 20} MiB")
    return data, state


def parse_file(data: bytes, path: str) -> FileContents:
    """Decode the contents of a configuration file; ``path`` is its name in messages."""
    contents = FileContents({}, ())
    root = compose(data, path)
    if root is None:
        return contents
    return _decode_section(FileNode(root, path, ""), contents)


def compose(data: bytes, path: str) -> yaml.Node | None:
    """The tree of a YAML file, None for an empty one. Raises ConfigError with line and reason."""
    try:
        return yaml.compose(data, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: is no valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{path}: is no valid YAML: {reason}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None


def _decode_section(section: FileNode, contents: FileContents) -> FileContents:
    for key, value in section.entries("a mapping of settings"):
        name = key.name
        if name == _EXPECTED:
            from nvmeof_exporter.config.expected import decode_expected  # noqa: PLC0415

            contents = contents._replace(expected=decode_expected(value))
        elif name == _POLICY:
            from nvmeof_exporter.policy.section import decode_policy  # noqa: PLC0415

            contents = contents._replace(policy=decode_policy(value))
        elif name in _SECTIONS and (name not in OPTIONS_BY_NAME or value.is_section):
            contents = _decode_section(value, contents)
        else:
            _decode_option(key, value, contents.options)
    return contents


def _decode_option(key: FileNode, value: FileNode, options: dict[str, Found]) -> None:
    option = OPTIONS_BY_NAME.get(key.name)
    if option is None:
        raise ConfigError(
            f"{key.place}: unknown key {quoted(key.name)}{suggestion(key.name, _KEYS)}"
        )
    if not option.in_file:
        raise ConfigError(f"{key.where} cannot be set in the configuration file")
    if option.name in options:
        raise ConfigError(f"{key.where} is given twice, as a dotted key and in its section")
    if option.repeatable and isinstance(value.node, yaml.SequenceNode):
        texts = tuple(item.text("a value") for item in value.items("a list"))
    else:
        texts = (value.text("a list or one value" if option.repeatable else "one value"),)
    options[option.name] = Found(texts, value.where)
