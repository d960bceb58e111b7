# SPDX-License-Identifier: LGPL-2.1-or-later
"""File descriptors from the daemon: the status page, which is mapped, and streams.

Programs that become daemons close all descriptors and may reuse the numbers, so each file is identified by its inode, and closed
only if it is still the same. Garbage collection closes it, so that it stays open while another thread is about to write.
"""

import ctypes
import fcntl
import mmap
import os
import socket
import stat
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.fstatfs.argtypes = (ctypes.c_int, ctypes.c_char_p)
_TRACEFS, _TMPFS = 0x74726163, 0x01021994
_F_GET_SEALS, _F_SEAL_SHRINK = 1034, 2
_MAP_FAILED = ctypes.c_void_p(-1).value

# Behind the page: a bit per event that a trace of the tenant's own has, and a byte per event, of which only those with such a bit are
# read.
TRACED_AT, TRACES_AT, _FILE_BYTES = 4096, 8192, 40960


def identity(fd):
    """Identifies the open file; None if the descriptor is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


class File:
    """A file descriptor received from the daemon."""

    __slots__ = ("fd", "_identity")

    def __init__(self, fd):
        self.fd, self._identity = fd, identity(fd)

    def is_intact(self):
        return identity(self.fd) == self._identity

    def is_stream(self):
        """A file of tracefs, or a non-blocking socket."""
        kind = self._identity[2] if self._identity else 0
        return stat.S_ISREG(kind) or (stat.S_ISSOCK(kind) and not os.get_blocking(self.fd))

    def __del__(self, _close=os.close):
        if self._identity and self.is_intact():
            _close(self.fd)


def _filesystem(fd):
    """The file system's magic number as an int and as a long: its type depends on the architecture."""
    status = ctypes.create_string_buffer(1024)
    _libc.fstatfs(fd, status)
    return struct.unpack_from("I", status)[0], struct.unpack_from("L", status)[0] & 0xffffffff


def _is_written_by_peer_only(status, peer):
    """The program trusts the socket's server not to truncate the page."""
    _, uid, _ = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))
    return uid == 0 or (status.st_uid in (0, uid) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _cannot_shrink(fd, status, peer):
    try:
        if fcntl.fcntl(fd, _F_GET_SEALS) & _F_SEAL_SHRINK:
            return True
    except OSError:
        pass
    return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY) or _is_written_by_peer_only(status, peer)


def _is_mappable(fd, page_bytes, peer):
    """A file that is too short, or truncated later, would raise SIGBUS. The kernel's own page, on tracefs, reports size 0."""
    filesystem, status = _filesystem(fd), os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return False
    return _TRACEFS in filesystem or (
        _TMPFS in filesystem and status.st_size >= page_bytes and _cannot_shrink(fd, status, peer))


def map_page(file, page_bytes, peer):
    """Maps the status page that was received over the socket `peer`. Raises OSError if that is not possible.

    Uses libc's mmap(): the module mmap keeps a duplicate of the descriptor, and refuses files of size 0.
    """
    if not _is_mappable(file.fd, page_bytes, peer):
        raise OSError("the status page is too short, or could be truncated by others")
    if page_bytes == TRACED_AT and os.fstat(file.fd).st_size >= _FILE_BYTES:
        page_bytes = _FILE_BYTES
    address = _libc.mmap(None, page_bytes, mmap.PROT_READ, mmap.MAP_SHARED, file.fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "cannot map the status page")

    class Page(ctypes.c_ubyte * page_bytes):
        """Unmapped when it is garbage-collected."""

        def __del__(self, _munmap=_libc.munmap):
            _munmap(address, page_bytes)

    return Page.from_address(address)
