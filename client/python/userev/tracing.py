# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events at entry and exit of a function."""

import functools
import inspect
import re
import time


def _name_of(function):
    """A name as events may have it."""
    name = re.sub(r"\W", "_", f"{function.__module__}.{function.__qualname__}", flags=re.A)
    return re.sub(r"^(?=\d)", "_", name)[:180]


class _Span:
    """One call. Whether its exit is told is decided then: somebody may have begun to trace meanwhile."""

    __slots__ = ("_exit", "_start")

    def __init__(self, entry, exit_):
        self._exit, self._start = exit_, time.monotonic_ns()
        if entry.enabled:
            entry.emit()

    def __enter__(self):
        return self

    def __exit__(self, kind, _value, _traceback):
        if self._exit.enabled:
            self._exit.emit(time.monotonic_ns() - self._start, kind.__name__ if kind else "")
        return False


def traced(userev, name=None):
    """A decorator: the event NAME_entry when the function (or coroutine) is called, and NAME_exit when it ends, with its duration
    in nanoseconds and the name of what it raised, if it did. Without a name it is the function's own, with its module's."""
    def decorate(function):
        base = name or _name_of(function)
        entry, exit_ = userev.event(f"{base}_entry"), userev.event(f"{base}_exit u64 duration; __rel_loc char[] exception")
        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def call(*arguments, **named):
                with _Span(entry, exit_):
                    return await function(*arguments, **named)
        else:
            @functools.wraps(function)
            def call(*arguments, **named):
                with _Span(entry, exit_):
                    return function(*arguments, **named)
        return call
    return decorate
