# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults for faults.c, and its counts, in a file that both map."""

import mmap
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BUILD  # noqa: E402

# The failing program may be from another build: ASan is slow.
VICTIMS = os.environ.get("VICTIMS", BUILD)
LIBRARY = os.path.join(VICTIMS, "tests/faults.so")
FOR_EVER = 2 ** 64 - 1
_SIZE = 16384
# Its head, by name.
_FIELDS = {"first": "Q", "last": "Q", "failed": "Q", "points": "Q", "interrupted_point": "Q", "function": "i", "error": "i", "delay": "I",
           "randomness": "I", "functions": "I", "signal": "i", "process": "i", "padding": "i", "where": "64s"}
_HEAD = struct.Struct("=" + "".join(_FIELDS.values()))
_COUNTED = struct.Struct("=40sQ")


class Plan:
    """The faults of a program and its children, whose environment names this file."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(_SIZE)
        # Programs of other users open it, too.
        os.chmod(path, 0o666)
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)

    def environment(self):
        # Preloaded before ASan's library, which normally requires to be the first.
        return {**os.environ, "LD_PRELOAD": LIBRARY, "FAULTS": self.path,
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=1") + ":verify_asan_link_order=0"}

    def fail(self, number, error, first, last):
        """Calls `first` to `last` of the function with that number in calls() fail with that errno."""
        self._put(function=number, error=error, first=first, last=last)

    def lift(self):
        """Clears `first`."""
        self._memory[:8] = bytes(8)

    def delay(self, microseconds, seed):
        self._put(delay=microseconds, randomness=seed)

    def interrupt(self, signal, point):
        """The first program gets the signal before its call number `point`."""
        self._put(signal=signal, interrupted_point=point)

    def _put(self, **fields):
        """Before the program starts."""
        self._memory[:_HEAD.size] = _HEAD.pack(*(fields.get(name, b"" if name == "where" else 0) for name in _FIELDS))

    def _get(self, name):
        return _HEAD.unpack_from(self._memory)[list(_FIELDS).index(name)]

    def failed(self):
        """The number of failed calls."""
        return self._get("failed")

    def points(self):
        """The number of calls of the first program, without those for memory."""
        return self._get("points")

    def where(self):
        """The caller of the first call that failed."""
        return _text(self._get("where"))

    def calls(self):
        """{function: calls so far}, in the order of their numbers."""
        return {_text(name): calls for name, calls in
                (_COUNTED.unpack_from(self._memory, _HEAD.size + i * _COUNTED.size) for i in range(self._get("functions")))}


def _text(data):
    return data.split(b"\0", 1)[0].decode()
