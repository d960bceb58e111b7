# SPDX-License-Identifier: LGPL-2.1-or-later
"""An event of the program's own: the test whether anybody traces it, and the record."""

import struct
import sys
from time import monotonic

from .connection import environment
from .layout import BadDescription, Layout, TooBig
from .packets import Refusal

_NOBODYS_PAGE = b"\0"
_SHOWN = 200  # of a description that is refused


class Place:
    """Where the daemon has put an event. It is replaced as a whole, so that no thread sees half of another one, and keeps the
    page mapped and the stream open as long as anybody uses it."""

    __slots__ = ("page", "byte", "mask", "bit", "stream", "index")

    def __init__(self, page, bit, stream, index):
        self.page, self.byte, self.mask, self.bit = page, bit >> 3, 1 << (bit & 7), bit
        self.stream, self.index = stream, struct.pack("=I", index)

    @property
    def is_abandoned(self):
        """Bit 0 is no event's: it is set, and all others with it, when no daemon keeps the page any more."""
        return self.page[0] & 1


NOWHERE = Place(_NOBODYS_PAGE, 0, None, 0)


class Event:
    """One event, made by Userev.event().

    An event is off until somebody traces it, and as long as there is no daemon. `refusal` says who did not grant it, and why;
    `problem` why no record could be made of the values that were given last, or None. Nothing here raises: a program must not fail
    because somebody looks at it.
    """

    __slots__ = ("description", "flags", "refusal", "problem", "place", "_layout", "_userev")

    def __init__(self, userev, description, flags):
        self.description, self.flags, self._userev = description, flags, userev
        self.refusal, self.problem, self.place = None, None, NOWHERE
        try:
            self._layout = Layout(description)
        except BadDescription as error:
            # The daemon will say it better, where there is one.
            self._layout, self.refusal = None, Refusal("bad-description", str(error))

    def __repr__(self):
        state = "refused" if self.refusal else "on" if self.enabled else "off"
        return f"<userev.Event {self.description!r} {state}>"

    @property
    def enabled(self):
        """Whether anybody traces the event: one test of a bit, and now and then a look whether there is a daemon."""
        place = self.place
        is_on = place.page[place.byte] & place.mask and not place.is_abandoned
        # Also of one that is on: before Linux 6.4 that is how a daemon is found which came after one that was killed.
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
        """Writes a record if anybody traces the event. The values are evaluated in any case: see `enabled`."""
        return self.enabled and self.emit(*values, **named)

    def emit(self, *values, **named):
        """Writes a record, with the values in the order of the fields, or the last of them by name. True if it is on its way."""
        place = self.place
        if place.stream is None or self._layout is None:
            return False
        try:
            payload = self._layout.pack(self._layout.order(values, named) if named else values)
        except TooBig:
            return self._userev.lose_too_big()
        except Exception as error:  # whatever the values' own methods raise
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
        """Gives the event back, for all who have declared it: it stays off. Declare it again to have it again."""
        self._userev.release(self)


def explain(sentence, is_refusal=False):
    """Prints why nothing is traced, if USEREV_DEBUG asks for that: "refused" for refusals alone."""
    wanted = environment("USEREV_DEBUG")
    if sys.stderr and wanted not in ("", "0") and (is_refusal or wanted != "refused"):
        print(f"userev: {sentence}", file=sys.stderr)


def explain_refusal(event):
    asked = event.description
    shown = asked if len(asked) <= _SHOWN else asked[:_SHOWN] + "..."
    explain(f"refused: {shown}: {event.refusal.sentence}", is_refusal=True)
