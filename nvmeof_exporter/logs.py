"""Log lines on standard error: logfmt or JSON, one line each whatever they hold.

``structlog.get_logger()`` anywhere gives a logger; ``configure`` decides what
becomes of its lines, also of those of loggers that exist already. Keys are
``ts``, ``level``, ``msg``, then the fields in the order given.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

__all__ = ["configure"]

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

#: Values that need no quotes in logfmt.
_PLAIN = re.compile(r'[^\s"=\\]+')
_KEY_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def configure(level: str, form: str) -> None:
    """Log from ``level`` (debug, info, warning, error) on, in ``form`` (logfmt, json).

    Libraries that log with the standard library's ``logging`` come out the same way.
    """
    number = _LEVELS[level]
    renderer: Processor = _logfmt if form == "logfmt" else _json
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            _arrange,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_StandardError,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Forward()], level=number, force=True)


class _StandardError:
    """Writes lines to standard error; where that fails there is nobody left to tell."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, line: str) -> None:
        # ValueError: the file is closed; AttributeError: the process was started without one.
        with suppress(OSError, ValueError, AttributeError):
            # One write per line, so that threads do not mix theirs.
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = exception = msg


class _Forward(logging.Handler):
    """Hands the records of the standard library's loggers to ours."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
        logger.log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def _arrange(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    first = {"ts": event.pop("ts"), "level": event.pop("level"), "msg": event.pop("event")}
    return {**first, **event}


def _json(_: WrappedLogger, __: str, event: EventDict) -> str:
    return json.dumps(event, default=str)


def _logfmt(_: WrappedLogger, __: str, event: EventDict) -> str:
    return " ".join(f"{_KEY_UNSAFE.sub('_', key)}={_value(value)}" for key, value in event.items())


def _value(value: Any) -> str:  # noqa: ANN401 (a field may hold anything)
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    # JSON's escapes keep the line one line and a terminal safe from what a device is called.
    return json.dumps(text, ensure_ascii=not text.isprintable())
