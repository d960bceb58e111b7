# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the daemon hands out: file descriptors, of which one is mapped.

A program that becomes a daemon closes all of its files, ours too, and their numbers then belong to others. So each is known by what
it was, and closed only if it still is that. Whoever uses one holds the object: it is closed when nobody does any more, not while
another thread is about to write.
"""

import ctypes
import mmap
import os
import stat

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
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


def _is_mappable(file, page_bytes):
    """A shorter file would raise SIGBUS; one of tracefs says that it has no size."""
    status = os.fstat(file.fd)
    return stat.S_ISREG(status.st_mode) and (status.st_size >= page_bytes or status.st_size == 0)


def map_page(file, page_bytes):
    """The status page as something to index; OSError where it can't be mapped.

    The module mmap would keep a duplicate of the file descriptor, and doesn't map files that say they have no size: here it lends
    its constants only.
    """
    if not _is_mappable(file, page_bytes):
        raise OSError("the status page is too short")
    address = _libc.mmap(None, page_bytes, mmap.PROT_READ, mmap.MAP_SHARED, file.fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "the status page can't be mapped")

    class Page(ctypes.c_ubyte * page_bytes):
        """Unmapped with its last user."""

        def __del__(self, _munmap=_libc.munmap):
            _munmap(address, page_bytes)

    return Page.from_address(address)
