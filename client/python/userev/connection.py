# SPDX-License-Identifier: LGPL-2.1-or-later
"""One connection to the daemon: packets and files in both directions, and never a wait beyond a deadline."""

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
_ENDED_BY_PEER = "the daemon has ended the connection"


class Ended(Exception):
    """The connection is of no more use."""


class QueueFull(Ended):
    """The daemon listens, but so many are connecting that there is no room: soon there may be."""


def environment(name):
    """A variable of ours; a program with more rights than its caller ignores them."""
    is_secure = (os.getuid(), os.getgid()) == (os.geteuid(), os.getegid())
    return os.environ.get(name, "") if is_secure else ""


def paths():
    """Where to look for the daemon."""
    chosen = environment("USEREV_SOCKET")
    return (chosen,) if chosen else PATHS


def patience():
    """For how many seconds a declaration waits at least, for programs that are over before the daemon has answered."""
    milliseconds = environment("USEREV_WAIT")
    return min(int(milliseconds), WAIT_MAX) / 1000 if milliseconds.isdecimal() else 0.0


def _limit_connect(sock, seconds):
    """connect() waits where very many are connecting; 0 would mean for ever."""
    microseconds = max(1, int(seconds * 1000000))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *divmod(microseconds, 1000000)))


def _connect(path, seconds):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        _limit_connect(sock, seconds)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class Connection:
    """For one thread at a time."""

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
        """Without shutdown(): after a fork the connection is the parent's. The number may be another file's by now."""
        if identity(self._socket.fileno()) == self._identity:
            self._socket.close()
        else:
            self._socket.detach()

    def check(self):
        if identity(self._socket.fileno()) != self._identity:
            raise Ended("somebody has closed the connection's file descriptor")

    def send(self, packet):
        self._unsent.append(packet)
        self.flush()

    def flush(self):
        """What finds no room is sent later, in its order."""
        while self._unsent:
            try:
                self._socket.send(self._unsent[0])
            except BlockingIOError:
                return
            except OSError:
                # The daemon may have said why before it hung up: that is still there to be read.
                self._unsent.clear()
                return
            self._unsent.popleft()

    def receive(self, end):
        """The next packet and its files, or None where none has come by then."""
        while True:
            try:
                return self._receive_now()
            except BlockingIOError:
                seconds = end - time.monotonic()
                if seconds <= 0 or not self._poll.poll(max(1, seconds * 1000)):
                    return None
                self.flush()
            except ConnectionResetError:
                continue  # Packets that were sent before it can still be read.
            except OSError as error:
                raise Ended(error.strerror) from None

    def _receive_now(self):
        data, control, flags, _ = self._socket.recvmsg(
            packets.PACKET_MAX, socket.CMSG_SPACE(4 * packets.FDS_MAX), socket.MSG_CMSG_CLOEXEC)
        files = [File(fd) for fd in _fds_of(control)]
        if not data:
            raise Ended(_ENDED_BY_PEER)
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise Ended("part of a packet was lost, or a file that came with it")
        return packets.decode(data), files


def _fds_of(control):
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    return fds
