# SPDX-License-Identifier: LGPL-2.1-or-later
"""A connection to the daemon: sends packets, and receives packets and files, without blocking beyond a deadline."""

import array
import collections
import os
import select
import socket
import struct
import time

from . import packets
from .files import File, identity

PATHS = ("/run/userevd/client/userevd.sock", "/run/userevd.sock")
IN_A_CONTAINER = "in a container, mount the host's directory: -v /run/userevd/client:/run/userevd/client:ro"
WAIT_MAX = 0x7fffffff


class Ended(Exception):
    """The connection cannot be used any more."""


class QueueFull(Ended):
    """Too many clients are connecting to the daemon: try again soon."""


def environment(name):
    """A variable of the environment; empty if the program runs with more privileges than its caller."""
    is_secure = (os.getuid(), os.getgid()) == (os.geteuid(), os.getegid())
    return os.environ.get(name, "") if is_secure else ""


def paths():
    """The sockets to try."""
    chosen = environment("USEREV_SOCKET")
    return (chosen,) if chosen else PATHS


def wait_min():
    """The minimum deadline of declarations in seconds, $USEREV_WAIT."""
    milliseconds = environment("USEREV_WAIT")
    return min(int(milliseconds), WAIT_MAX) / 1000 if milliseconds.isdecimal() else 0.0


def _connect(path, seconds):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    # connect() blocks while the daemon's queue is full. A timeout of 0 would be none.
    microseconds = max(1, int(seconds * 1000000))
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *divmod(microseconds, 1000000)))
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class Connection:
    """Not thread-safe."""

    def __init__(self, path, end):
        self._socket = _connect(path, end - time.monotonic())
        self._identity = identity(self._socket.fileno())
        self._unsent = collections.deque()
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    @property
    def socket(self):
        return self._socket

    def fileno(self):
        return self._socket.fileno()

    def close(self):
        """Does not call shutdown(): after a fork the connection is the parent's. Does not close an fd that the program has reused."""
        if identity(self._socket.fileno()) == self._identity:
            self._socket.close()
        else:
            self._socket.detach()

    def check(self):
        if identity(self._socket.fileno()) != self._identity:
            raise Ended("the program has closed the connection's file descriptor")

    def send(self, packet):
        self._unsent.append(packet)
        self.flush()

    def flush(self):
        """Sends queued packets until the socket is full."""
        while self._unsent:
            try:
                self._socket.send(self._unsent[0])
            except BlockingIOError:
                return
            except OSError:
                # If the daemon has closed the connection, its reason may still be readable.
                self._unsent.clear()
                return
            self._unsent.popleft()

    def receive(self, end):
        """Returns the next packet and its files, or None at the deadline."""
        while True:
            try:
                return self._receive_now()
            except BlockingIOError:
                seconds = end - time.monotonic()
                if seconds <= 0 or not self._poll.poll(max(1, seconds * 1000)):
                    return None
                self.flush()
            except ConnectionResetError:
                continue  # Packets that were sent before can still be read.
            except OSError as error:
                raise Ended(error.strerror) from None

    def _receive_now(self):
        data, control, flags, _ = self._socket.recvmsg(
            packets.PACKET_MAX, socket.CMSG_SPACE(4 * packets.FDS_MAX), socket.MSG_CMSG_CLOEXEC)
        files = [File(fd) for fd in _fds_of(control)]
        if not data:
            raise Ended("the daemon has closed the connection")
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise Ended("a packet, or its list of files, was truncated")
        return packets.decode(data), files


def _fds_of(control):
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    return fds
