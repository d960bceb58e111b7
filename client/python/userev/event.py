# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events: testing them, and writing records."""

import struct
import sys
from time import monotonic

from .connection import environment
from .files import TRACED_AT, TRACES_AT
from .layout import BadDescription, Layout, TooBig
from .packets import Refusal

_NOBODYS_PAGE = b"\0"
_SHOWN = 200  # characters of a refused description


class Place:
    """An event's grant. It is immutable, so that threads always see a consistent one, and keeps its page mapped and its stream
    open while it is used."""

    __slots__ = ("page", "byte", "mask", "bit", "stream", "index", "description", "_traced")

    def __init__(self, page, bit, stream, index, description=""):
        self.page, self.byte, self.mask, self.bit = page, bit >> 3, 1 << (bit & 7), bit
        self.stream, self.index, self.description = stream, struct.pack("=I", index), description.encode("ascii", "replace")
        # Behind a page of an older daemon, or the kernel's, is nothing.
        self._traced = TRACED_AT + self.byte if len(page) > TRACES_AT else None

    @property
    def traces(self):
        """The tenant's own traces that have the event, a bit each, and whether no others have it. Usually 0."""
        if self._traced is None or not self.page[self._traced] & self.mask:
            return 0
        return self.page[TRACES_AT + self.bit]

    @property
    def is_abandoned(self):
        """Bit 0 belongs to no event. All bits are set when no daemon serves the page any longer."""
        return self.page[0] & 1


NOWHERE = Place(_NOBODYS_PAGE, 0, None, 0)


class Event:
    """One event, created by Userev.event().

    It is off until a tracer enables it, and while there is no daemon. `refusal` is why the daemon refused it, or None; `problem`
    why the values passed last do not fit its fields, or None. No method raises: tracing must not make a program fail.
    """

    __slots__ = ("description", "flags", "refusal", "problem", "place", "_layout", "_userev")

    def __init__(self, userev, description, flags):
        self.description, self.flags, self._userev = description, flags, userev
        self.refusal, self.problem, self.place = None, None, NOWHERE
        try:
            self._layout = Layout(description)
        except BadDescription as error:
            # Replaced by the daemon's refusal, if there is a daemon.
            self._layout, self.refusal = None, Refusal("bad-description", str(error))

    def __repr__(self):
        state = "refused" if self.refusal else "on" if self.enabled else "off"
        return f"<userev.Event {self.description!r} {state}>"

    @property
    def enabled(self):
        """Whether a tracer has enabled the event. Tests a bit, and at intervals checks for the daemon."""
        place = self.place
        is_on = place.page[place.byte] & place.mask and not place.is_abandoned
        # Also while the event is on: before Linux 6.4 only this finds the daemon that follows a killed one.
        if monotonic() >= self._userev.next_look:
            self._userev.look()
        return bool(is_on)

    @property
    def is_registered(self):
        return self.place.stream is not None

    @property
    def fields(self):
        """The names of its fields."""
        return self._layout.names if self._layout else ()

    def __call__(self, *values, **named):
        """Writes a record if the event is enabled. The arguments are evaluated in any case: see `enabled`."""
        return self.enabled and self.emit(*values, **named)

    def emit(self, *values, **named):
        """Writes a record with the values in the order of the fields, the last of them by name. Returns True if it was written."""
        place = self.place
        if place.stream is None or self._layout is None:
            return False
        try:
            payload = self._layout.pack(self._layout.order(values, named) if named else values)
        except TooBig:
            return self._userev.lose("too_big")
        except Exception as error:  # of any kind: conversions call methods of the values
            self._complain(self._layout.why_not(values, named) or error)
            return False
        self.problem = None
        written = self._userev.write(place, payload)
        if monotonic() >= self._userev.next_look:
            self._userev.look()
        return written

    def _complain(self, error):
        self.problem = f"{self._layout.name}: {error}"
        explain(self.problem)

    def release(self):
        """Releases the event for all callers that have declared it: it stays off. A new declaration registers it again."""
        self._userev.release(self)


def explain(sentence, is_refusal=False):
    """Prints why events are not available, if USEREV_DEBUG is set; with the value "refused" refusals only."""
    wanted = environment("USEREV_DEBUG")
    if sys.stderr and wanted not in ("", "0") and (is_refusal or wanted != "refused"):
        print(f"userev: {sentence}", file=sys.stderr)


def explain_refusal(event):
    asked = event.description
    shown = asked if len(asked) <= _SHOWN else asked[:_SHOWN] + "..."
    explain(f"refused: {shown}: {event.refusal.sentence}", is_refusal=True)
