# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trace events of a Python program, through userevd(8).

    import userev

    request = userev.event("shop_request u32 status; u64 ns; __rel_loc char[] path")

    if request.enabled:
        request.emit(404, 4000, "/")

Without a daemon the program runs the same, and the event is off. See python-userev(3).
"""

import threading

from . import handler, tracing
from .client import Userev
from .event import Event
from .layout import double_bits, float_bits
from .packets import Refusal

__all__ = ["Event", "Handler", "Refusal", "Userev", "default", "double_bits", "event", "float_bits", "traced"]

_default = None
_default_lock = threading.Lock()


def default():
    """The program's default Userev, created by the first call."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Userev()
    return _default


def event(description, **flags):
    """Declares an event; see Userev.event()."""
    return default().event(description, **flags)


def traced(name=None, *, userev=None):
    """A decorator for functions and coroutines: @userev.traced or @userev.traced("name").

    Emits NAME_entry when the function is called, and NAME_exit when it ends, with its duration in nanoseconds and the name of the
    exception it raised.
    """
    if callable(name):
        return tracing.traced(userev or default())(name)
    return tracing.traced(userev or default(), name)


class Handler(handler.Handler):
    """A logging.Handler that emits an event for each log record: logging.getLogger().addHandler(userev.Handler())."""

    def __init__(self, name="python_log", *, userev=None, **options):
        super().__init__(userev or default(), name, **options)
