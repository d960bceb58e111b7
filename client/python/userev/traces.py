# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces that the program's tenant makes of itself. For each the daemon sends a socket, to which records are written without ever
blocking; a byte behind the status page says which of them have an event."""

import errno
import socket
import struct
import threading
import time

from .files import identity

TRACES_MAX = 4
ONLY = 0x80  # in the byte: the machine's tracers don't want the event
_FULL = (errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.EMSGSIZE)
_HEADER = struct.Struct("=QII")
_LOOKS = 16  # for a socket that has not come yet


class _Trace:
    def __init__(self, file):
        self._socket = socket.fromfd(file.fd, socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._identity = identity(self._socket.fileno())
        self._lost, self._counter = 0, threading.Lock()

    def send(self, description, payload):
        """Returns False if nothing reads the trace any more."""
        with self._counter:
            lost, self._lost = self._lost, 0
        if identity(self._socket.fileno()) != self._identity:
            self._socket.detach()
            return False
        header = _HEADER.pack(time.time_ns(), lost, len(description))
        try:
            self._socket.sendmsg((header, description, payload), (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            if error.errno not in _FULL:
                return False
            with self._counter:
                self._lost += lost + 1
        return True


class Traces:
    """Those of one Userev."""

    def __init__(self):
        self._traces, self._looks = {}, 0

    def take(self, number, file):
        self._traces[number], self._looks = _Trace(file), 0

    def write(self, place, payload, look):
        """Writes a record to the traces that have its event. Returns whether the stream gets it, too."""
        for number in range(TRACES_MAX):
            if place.traces >> number & 1 and not self._send(number, place, payload):
                # The socket of a new trace has been sent, and was not received yet.
                if self._looks < _LOOKS:
                    self._looks += 1
                    look()
                self._send(number, place, payload)
        return not place.traces & ONLY

    def _send(self, number, place, payload):
        trace = self._traces.get(number)
        if trace and trace.send(place.description, payload):
            return True
        self._traces.pop(number, None)
        return False
