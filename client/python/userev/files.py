# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the daemon hands out: file descriptors, of which one is mapped.

A program that becomes a daemon closes all of its files, ours too, and their numbers then belong to others. So each is known by what
it was, and closed only if it still is that. Whoever uses one holds the object: it is closed when nobody does any more, not while
another thread is about to write.
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


def identity(fd):
    """What a file descriptor refers to; None where it is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


class File:
    """A file descriptor that came from the daemon."""

    __slots__ = ("fd", "_identity")

    def __init__(self, fd):
        self.fd, self._identity = fd, identity(fd)

    def is_intact(self):
        return identity(self.fd) == self._identity

    def is_stream(self):
        """A file of tracefs, or a socket that never makes a writer wait."""
        kind = self._identity[2] if self._identity else 0
        return stat.S_ISREG(kind) or (stat.S_ISSOCK(kind) and not os.get_blocking(self.fd))

    def __del__(self, _close=os.close):
        if self._identity and self.is_intact():
            _close(self.fd)


def _filesystem(fd):
    """Its magic number, which is an int first of all on one architecture and a long on others: the numbers that it may be."""
    status = ctypes.create_string_buffer(1024)
    _libc.fstatfs(fd, status)
    return struct.unpack_from("I", status)[0], struct.unpack_from("L", status)[0] & 0xffffffff


def _belongs_to(status, peer):
    """Only those can shorten it whom the program believes anyway: its socket leads to them."""
    _, uid, _ = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))
    return uid == 0 or (status.st_uid in (0, uid) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _stays_whole(fd, status, peer):
    try:
        if fcntl.fcntl(fd, _F_GET_SEALS) & _F_SEAL_SHRINK:
            return True
    except OSError:
        pass
    return bool(os.fstatvfs(fd).f_flag & os.ST_RDONLY) or _belongs_to(status, peer)


def _is_mappable(fd, page_bytes, peer):
    """A file that is shorter, or becomes so, would raise SIGBUS. One of tracefs says that it has no size, and is the kernel's."""
    filesystem, status = _filesystem(fd), os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return False
    return _TRACEFS in filesystem or (
        _TMPFS in filesystem and status.st_size >= page_bytes and _stays_whole(fd, status, peer))


def map_page(file, page_bytes, peer):
    """The status page, which came over the socket `peer`, as something to index; OSError where it can't be mapped.

    The module mmap would keep a duplicate of the file descriptor, and doesn't map files that say they have no size: here it lends
    its constants only.
    """
    if not _is_mappable(file.fd, page_bytes, peer):
        raise OSError("the status page is too short, or others could shorten it")
    address = _libc.mmap(None, page_bytes, mmap.PROT_READ, mmap.MAP_SHARED, file.fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "the status page can't be mapped")

    class Page(ctypes.c_ubyte * page_bytes):
        """Unmapped with its last user."""

        def __del__(self, _munmap=_libc.munmap):
            _munmap(address, page_bytes)

    return Page.from_address(address)
