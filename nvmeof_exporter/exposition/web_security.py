"""The web configuration in force, and the thread that follows its files.

A new version is read beside everything else, as the disk may hang; it takes
effect whole or not at all. What is broken, half-written or expired leaves the
old one in force, and so does a file that no longer asks for TLS or passwords:
a truncated file must not open the doors.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import NamedTuple

import structlog

from nvmeof_exporter.config.errors import ConfigError
from nvmeof_exporter.config.web_file import FileState, WebSettings, read_web_file
from nvmeof_exporter.exposition.guard import Protection, TokenBucket
from nvmeof_exporter.exposition.passwords import Passwords
from nvmeof_exporter.exposition.tls import CertificateOutOfDate, Tls

__all__ = ["WebSecurity", "check_web_file"]

#: How often the files are looked at, and a version that was refused is tried again (seconds).
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 5.0

#: How often the certificate in force is looked at, which ages by itself (seconds).
_DATES_SECONDS = 60.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _Version(NamedTuple):
    settings: WebSettings
    tls: Tls | None
    protection: Protection


class WebSecurity:
    """Holds what protects the pages.

    A certificate that is out of date is served at the start, with an error: the
    clock may be wrong, and clients judge for themselves.

    Args:
        path: the web configuration file.

    Raises:
        ConfigError: it cannot be used.

    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._asked = threading.Event()
        self._stopping = False
        self._told = ""
        self._version = _made(read_web_file(path), None)
        self._out_of_date = ""
        self._look_at_dates()
        self._thread = threading.Thread(target=self._follow, name="web config", daemon=True)

    @property
    def works(self) -> bool:
        """Whether what is in force is what the files say, and its certificate is up to date."""
        return not self._told and not self._out_of_date

    def tls(self) -> Tls | None:
        """Return what a new connection must comply with."""
        return self._version.tls

    def protection(self) -> Protection:
        """Return what a request must pass."""
        return self._version.protection

    def start(self) -> None:
        """Follow the files from now on."""
        self._thread.start()

    def look(self) -> None:
        """Read the files again now, changed or not; returns at once."""
        self._asked.set()

    def stop(self) -> None:
        """End the thread, unless the disk holds it."""
        self._stopping = True
        self._asked.set()
        if self._thread.ident is not None:
            self._thread.join(_LOOK_SECONDS)

    def _look_at_dates(self) -> None:
        """Say once that the certificate in force is out of date; it is served nevertheless."""
        problem = ""
        if self._version.tls is not None:
            try:
                self._version.tls.check_dates()
            except CertificateOutOfDate as out_of_date:
                problem = str(out_of_date)
        if problem and not self._out_of_date:
            _log.error("certificate out of date, served nevertheless", reason=problem)
        self._out_of_date = problem

    def _look_at_dates_again(self) -> None:
        with suppress(ConfigError):  # it worked before: the machine is short of something
            self._look_at_dates()

    def _follow(self) -> None:
        suspected = ""
        dates_due = time.monotonic() + _DATES_SECONDS
        while True:
            asked = self._asked.wait(_RETRY_SECONDS if self._told else _LOOK_SECONDS)
            self._asked.clear()
            if self._stopping:
                return
            if time.monotonic() >= dates_due:
                dates_due = time.monotonic() + _DATES_SECONDS
                self._look_at_dates_again()
            if not (asked or suspected or self._changed()):
                continue
            problem = self._renew()
            # A certificate comes before its key: what is half there now may be whole soon.
            if problem not in {"", self._told} and (asked or problem == suspected):
                self._told = problem
                _log.error("web configuration not reloaded, the old one stays", reason=problem)
            suspected = problem

    def _changed(self) -> bool:
        return any(_state(name) != state for name, state in self._version.settings.files.items())

    def _renew(self) -> str:
        """Take over what the files say now; returns what is wrong with it, ``""`` when nothing."""
        try:
            version = _made(read_web_file(self._path), self._version)
            self._try_out(version)
        except (ConfigError, CertificateOutOfDate) as problem:
            return str(problem)
        if self._told or version.settings != self._version.settings:
            _log.info("web configuration reloaded", file=self._path)
        self._told = ""
        self._version = version
        self._look_at_dates_again()
        return ""

    def _try_out(self, version: _Version) -> None:
        """Raise ConfigError where no client could connect, CertificateOutOfDate of a new one."""
        if version.tls is None or version.tls is self._version.tls:
            return
        try:
            version.tls.check_dates()
        except CertificateOutOfDate:
            # One that was in force already is no reason to keep, say, an old password.
            if _certificate(version) != _certificate(self._version):
                raise


def check_web_file(path: str) -> None:
    """Raise ConfigError where the file, or one that it names, could not be used."""
    version = _made(read_web_file(path), None)
    if version.tls is not None:
        try:
            version.tls.check_dates()
        except CertificateOutOfDate as problem:
            raise ConfigError(str(problem)) from None


def _made(settings: WebSettings, old: _Version | None) -> _Version:
    """Make of the settings what is asked at each request; what did not change goes on."""
    if old is None:
        old = _Version(WebSettings(), None, Protection())
    _refuse_less(settings, old.settings)
    tls = old.tls
    if settings.tls != old.settings.tls:
        tls = Tls(settings.tls) if settings.tls is not None else None
    passwords, bucket = old.protection.passwords, old.protection.bucket
    if settings.users != old.settings.users:
        passwords = Passwords(settings.users)
    if settings.rate_limit != old.settings.rate_limit:
        bucket = TokenBucket(settings.rate_limit) if settings.rate_limit is not None else None
    return _Version(settings, tls, Protection(passwords, settings.headers, bucket))


def _certificate(version: _Version) -> bytes | None:
    tls = version.settings.tls
    return tls.certificate.data if tls is not None else None


def _refuse_less(settings: WebSettings, old: WebSettings) -> None:
    path = next(iter(settings.files))
    for name, before, now in (
        ("tls_server_config", old.tls, settings.tls),
        ("basic_auth_users", old.users, settings.users),
    ):
        if before and not now:
            raise ConfigError(f"{path}: {name} is gone; without it only after a restart")


def _state(name: str) -> FileState | None:
    try:
        return FileState.of(os.stat(name))
    except OSError:
        return None
