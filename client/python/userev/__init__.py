# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trace events of a Python program, through userevd(8).

    import userev

    request = userev.event("shop_request u32 status; u64 ns; __rel_loc char[] path")

    if request.enabled:
        request.emit(404, 4000, "/")

Without a daemon the program runs the same, and the event is off. See python-userev(3).
"""

from .client import Userev, default
from .event import Event
from .handler import Handler
from .layout import double_bits, float_bits
from .packets import Refusal
from .tracing import traced

__all__ = ["Event", "Handler", "Refusal", "Userev", "default", "double_bits", "event", "float_bits", "traced"]


def event(description, **flags):
    """Declares an event; see Userev.event()."""
    return default().event(description, **flags)
