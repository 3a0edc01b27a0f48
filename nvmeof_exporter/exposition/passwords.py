"""Who may ask: user names and passwords against bcrypt hashes.

A hash costs a tenth of a second of a core on purpose, so results are kept, and
only a few hashes are in work or waited for at a time: whoever guesses passwords
gets few guesses and does not keep out those who are known already.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Passwords", "Verdict"]

#: bcrypt reads no more of a password; newer libraries refuse what others cut off.
_MOST_PASSWORD_BYTES = 72

_MOST_GRANTED, _MOST_DENIED = 256, 1024

#: Requests that may wait for a hash at a time, the one in work included.
_MOST_WAITING = 4


class Verdict(enum.Enum):
    """What became of a request's credentials."""

    GRANTED = enum.auto()
    DENIED = enum.auto()
    BUSY = enum.auto()


class Passwords:
    """Judges ``Authorization`` headers; for any number of threads.

    Args:
        users: bcrypt hashes by user name, at least one.

    """

    def __init__(self, users: Mapping[str, bytes]) -> None:
        from bcrypt import checkpw  # noqa: PLC0415 - only who has users needs the library

        self._checkpw = checkpw
        self._users = dict(users)
        # For names nobody has: the same work, for a password nobody knows.
        self._nobody = max(self._users.values(), key=_cost)
        self._pepper = os.urandom(32)
        self._granted = _Recent(_MOST_GRANTED)
        self._denied = _Recent(_MOST_DENIED)
        self._places = threading.BoundedSemaphore(_MOST_WAITING)
        self._one_at_a_time = threading.Lock()

    def judge(self, authorization: str) -> Verdict:
        """Judge the value of the header, ``""`` where there is none."""
        credentials = _basic(authorization)
        if credentials is None:
            return Verdict.DENIED
        name, password = credentials
        digest = self._digest(name, password)
        if digest in self._granted:
            return Verdict.GRANTED
        if digest in self._denied:
            return Verdict.DENIED
        if not self._places.acquire(blocking=False):
            return Verdict.BUSY
        try:
            with self._one_at_a_time:
                granted = self._matches(name, password)
        finally:
            self._places.release()
        (self._granted if granted else self._denied).add(digest)
        return Verdict.GRANTED if granted else Verdict.DENIED

    def _matches(self, name: str, password: bytes) -> bool:
        hashed = self._users.get(name)
        try:
            same = self._checkpw(password[:_MOST_PASSWORD_BYTES], hashed or self._nobody)
        except ValueError:
            return False
        return same and hashed is not None

    def _digest(self, name: str, password: bytes) -> bytes:
        """Return a key for what is remembered, which is no use outside this process."""
        said = name.encode("utf-8", "surrogateescape") + b":" + password
        return hashlib.blake2b(said, key=self._pepper).digest()


class _Recent:
    """A bounded set that forgets what was longest not asked for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._members: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, digest: bytes) -> bool:
        with self._lock:
            if digest not in self._members:
                return False
            self._members.move_to_end(digest)
            return True

    def add(self, digest: bytes) -> None:
        with self._lock:
            self._members[digest] = None
            if len(self._members) > self._most:
                self._members.popitem(last=False)


def _cost(hashed: bytes) -> int:
    return int(hashed.split(b"$")[2])


def _basic(authorization: str) -> tuple[str, bytes] | None:
    """Return user name and password of a ``Basic`` header (RFC 7617), None of any other."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = decoded.partition(b":")
    return (name.decode("utf-8", "surrogateescape"), password) if colon else None
