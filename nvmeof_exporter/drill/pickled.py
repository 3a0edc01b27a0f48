"""What a pickle says, without unpickling it.

Unpickling runs what the file names. Here its opcodes are followed on a stack of
plain values instead: whatever would be imported, called or built becomes an ``Inert``
that remembers what it was made from. Nothing is imported and nothing runs. Source of the
opcodes' meaning: CPython's Lib/pickletools.py.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Inert", "PickleError", "objects_in"]


#: How protocols 0 and 1 make an object: its class is the first argument.
_RECONSTRUCTORS = frozenset({"copyreg _reconstructor", "copy_reg _reconstructor"})


class PickleError(ValueError):
    """The bytes are no whole pickle, or one of a form that is not followed."""


@dataclass(eq=False, slots=True)
class Inert:
    """Something that unpickling would have made.

    ``name`` is that of the class or function, ``"module name"``; ``arguments`` is what it
    would have been called with, ``state`` what its attributes would have been set from.
    """

    name: str
    arguments: Any = ()
    state: Any = None


class _Mark:
    """The place on the stack that an opcode takes everything down to."""


@dataclass(slots=True)
class _Machine:
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    made: list[Inert] = field(default_factory=list)

    def take_to_mark(self) -> list[Any]:
        """Pop everything above the newest mark, and the mark."""
        for index in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[index], _Mark):
                taken = self.stack[index + 1 :]
                del self.stack[index:]
                return taken
        raise PickleError("a mark is missing")

    def make(self, made_of: Any, arguments: Any) -> None:  # noqa: ANN401  # any value
        """Push what calling ``made_of`` would have given."""
        name = made_of.name if isinstance(made_of, Inert) else "?"
        if name in _RECONSTRUCTORS and isinstance(arguments, tuple) and arguments:
            name = arguments[0].name if isinstance(arguments[0], Inert) else name
        made = Inert(name.replace("\n", " "), arguments)
        self.made.append(made)
        self.stack.append(made)


def objects_in(raw: bytes) -> list[Inert]:
    """Return everything that unpickling ``raw`` would have made, in that order.

    Raises:
        PickleError: it is cut off, no pickle, or does what is not followed.

    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(raw):
            _follow(machine, opcode.name, argument)
    except PickleError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        # genops says ValueError of bytes that are none; the others: a stack it cannot be.
        raise PickleError(f"no whole pickle ({error})") from None
    return machine.made


def _follow(machine: _Machine, name: str, argument: Any) -> None:  # noqa: ANN401
    if name in _CONSTANTS:
        machine.stack.append(_CONSTANTS[name]())
    elif name in _LITERALS:
        machine.stack.append(argument)
    elif name in _ACTIONS:
        _ACTIONS[name](machine, argument)
    elif name not in _SILENT:
        raise PickleError(f"opcode {name} is not followed")


def _build(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    state = machine.stack.pop()
    built = machine.stack[-1]
    if isinstance(built, Inert):
        built.state = state


def _set_items(target: Any, pairs: list[Any]) -> None:  # noqa: ANN401
    """Set a dictionary's items. Keys of kinds that nobody asks for become any key of its own."""
    if not isinstance(target, dict):
        return
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        target[key if isinstance(key, (str, int, Inert)) else object()] = value


def _set_item(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    value, key = machine.stack.pop(), machine.stack.pop()
    _set_items(machine.stack[-1], [key, value])


def _set_marked_items(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    pairs = machine.take_to_mark()
    _set_items(machine.stack[-1], pairs)


def _append(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    _extend(machine, [machine.stack.pop()])


def _extend(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, list):
        target.extend(values)


def _dictionary(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    made: dict[Any, Any] = {}
    _set_items(made, machine.take_to_mark())
    machine.stack.append(made)


def _tuple(machine: _Machine, count: int) -> None:
    values = machine.stack[-count:]
    if len(values) < count:
        raise PickleError("the stack is empty")
    del machine.stack[-count:]
    machine.stack.append(tuple(values))


def _global(machine: _Machine, argument: Any) -> None:  # noqa: ANN401
    machine.stack.append(Inert(str(argument)))


def _stack_global(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(Inert(f"{module} {name}"))


def _call(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    arguments, called = machine.stack.pop(), machine.stack.pop()
    machine.make(called, arguments)


def _call_with_names(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    names, arguments, called = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.make(called, (arguments, names))


def _call_marked(machine: _Machine, argument: Any) -> None:  # noqa: ANN401
    """INST has the class as its argument, OBJ above the mark."""
    values = machine.take_to_mark()
    called = Inert(str(argument)) if argument is not None else values.pop(0)
    machine.make(called, tuple(values))


def _memoize(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _put(machine: _Machine, argument: Any) -> None:  # noqa: ANN401
    machine.memo[int(argument)] = machine.stack[-1]


def _get(machine: _Machine, argument: Any) -> None:  # noqa: ANN401
    machine.stack.append(machine.memo[int(argument)])


def _pop(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    machine.stack.pop()


def _pop_mark(machine: _Machine, _: Any) -> None:  # noqa: ANN401
    machine.take_to_mark()


def _push_marked(machine: _Machine, kind: Callable[[list[Any]], Any]) -> None:
    machine.stack.append(kind(machine.take_to_mark()))


#: Opcodes that push a fresh value.
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": _Mark,
}

#: Opcodes that push their argument.
_LITERALS = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)

#: Opcodes that change nothing here.
_SILENT = frozenset({"PROTO", "FRAME", "STOP"})

_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "APPEND": _append,
    "APPENDS": lambda machine, _: _extend(machine, machine.take_to_mark()),
    "ADDITEMS": lambda machine, _: _extend(machine, machine.take_to_mark()),
    "LIST": lambda machine, _: _push_marked(machine, list),
    "FROZENSET": lambda machine, _: _push_marked(machine, tuple),
    "TUPLE": lambda machine, _: _push_marked(machine, tuple),
    "TUPLE1": lambda machine, _: _tuple(machine, 1),
    "TUPLE2": lambda machine, _: _tuple(machine, 2),
    "TUPLE3": lambda machine, _: _tuple(machine, 3),
    "DICT": _dictionary,
    "SETITEM": _set_item,
    "SETITEMS": _set_marked_items,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _call,
    "NEWOBJ": _call,
    "NEWOBJ_EX": _call_with_names,
    "INST": _call_marked,
    "OBJ": _call_marked,
    "BUILD": _build,
    "MEMOIZE": _memoize,
    "PUT": _put,
    "BINPUT": _put,
    "LONG_BINPUT": _put,
    "GET": _get,
    "BINGET": _get,
    "LONG_BINGET": _get,
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "POP": _pop,
    "POP_MARK": _pop_mark,
}
