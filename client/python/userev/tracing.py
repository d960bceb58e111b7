# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events at the entry and exit of functions."""

import functools
import inspect
import re
import time

from .client import default


def _name_of(function):
    """A valid event name for the function."""
    name = re.sub(r"\W", "_", f"{function.__module__}.{function.__qualname__}", flags=re.A)
    return re.sub(r"^(?=\d)", "_", name)[:180]


class _Span:
    """One call. The exit event is tested at the exit, because it may have been switched meanwhile."""

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


def traced(name=None, *, userev=None):
    """A decorator for functions and coroutines: @userev.traced or @userev.traced("name").

    Emits NAME_entry when the function is called, and NAME_exit when it ends, with its duration in nanoseconds and the name of the
    exception it raised.
    """
    userev = userev or default()

    def decorate(function):
        base = _name_of(function) if callable(name) else name or _name_of(function)
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
    return decorate(name) if callable(name) else decorate
