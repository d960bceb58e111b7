# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon with the best backend of this machine, tracers, and programs without privilege, for tests in Python."""

import collections
import contextlib
import ctypes
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BUILD, TIMEOUT, eventually  # noqa: E402

CTL = os.path.join(BUILD, "userevctl")


class Lines:
    """A program whose output is read by a thread."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)

    def next(self, timeout=TIMEOUT):
        """The next line, or "" at the timeout."""
        with contextlib.suppress(queue.Empty):
            return self._lines.get(timeout=timeout).rstrip("\n")
        return ""

    def is_empty(self):
        return self._lines.empty()

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        self.process.stdout.close()
        return status


Child = collections.namedtuple("Child", "pid name")


def children_of(process):
    children = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
            if int(rest.split()[1]) == process:
                children.append(Child(int(entry), name))
    return children


class Daemon:
    """Its sockets and log are in a directory that all users may enter."""

    def __init__(self, directory, *options):
        self.directory, self.options = directory, options
        self.socket, self.control = directory + "/socket", directory + "/control"
        self.environment = {**os.environ, "USEREV_SOCKET": self.socket, "USEREV_CONTROL_SOCKET": self.control}
        self.process = None

    def _command(self):
        return [os.path.join(BUILD, "userevd"), "--foreground", "--exit-with-parent", "--backend=auto", "--socket=" + self.socket,
                "--control-socket=" + self.control, *self.options]

    def second_fails(self):
        """Starts a second daemon on the same sockets. True if it does not start."""
        with open(self.directory + "/log", "a", encoding="utf-8") as log:
            return subprocess.run(self._command(), stderr=log, timeout=TIMEOUT, check=False).returncode != 0

    def start(self):
        ready, ready_end = os.pipe()
        with open(self.directory + "/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([*self._command(), f"--ready-fd={ready_end}"], pass_fds=[ready_end], stderr=log)
        os.close(ready_end)
        started = os.read(ready, 1) == b"\n"
        os.close(ready)
        return started

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(signal.SIGCONT)  # a failed test may have stopped it
        self.process.send_signal(number)
        self.process.wait(TIMEOUT)
        self.process = None
        if number == signal.SIGKILL and os.geteuid() == 0:
            # The janitor could remove a successor's socket with the same inode number.
            eventually(lambda: not os.path.exists(self.socket))

    def kill_all(self):
        """Stops daemon, keeper and their helpers before it kills them, so that none of them sees the end of another."""
        processes = [self.process.pid]
        os.kill(self.process.pid, signal.SIGSTOP)
        for parent in processes:
            for child in children_of(parent):
                if not child.name.startswith("userevd-janitor"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child.pid, signal.SIGSTOP)
                        processes.append(child.pid)
        for process in processes:
            # The kernel ends enablers with their keeper.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.stop(signal.SIGKILL)

    def ctl(self, *arguments, **options):
        return subprocess.run([CTL, *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT, check=False, **options)

    def json(self, *arguments):
        return json.loads(self.ctl("--json", *arguments).stdout)

    def tail(self, *arguments):
        return Lines([CTL, "tail", "--json", *arguments], env=self.environment)

    def own_tail(self, pattern):
        """Of this tenant's own events."""
        return Lines([CTL, "tail", "--json", "--own", pattern], env=self.environment)

    def is_on(self, name):
        return any(event["event"] == name and event["on"] for event in self.json("events"))

    def log(self):
        with open(self.directory + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()


@contextlib.contextmanager
def scratch_directory():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        yield directory


@contextlib.contextmanager
def running(*options):
    with scratch_directory() as directory:
        daemon = Daemon(directory, *options)
        if not daemon.start():
            raise OSError(daemon.log())
        try:
            yield daemon
        finally:
            if daemon.process:
                daemon.stop()


def unprivileged():
    """Options of subprocess for a program of an ordinary user."""
    return {"user": 1000, "group": 1000, "extra_groups": []} if os.geteuid() == 0 else {}


# Clients that speak the protocol byte by byte, one process for many tenants.

def packet(kind, body):
    return struct.pack("<IHBBII", 16 + len(body), kind, 0, 0, 1, 0) + body


def ask(connection, kind, body=b""):
    connection.send(packet(kind, body))
    _, control, _, _ = connection.recvmsg(131072, socket.CMSG_SPACE(8 * 4))
    for level, type_, data in control:
        if (level, type_) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            for fd in struct.unpack(f"{len(data) // 4}i", data):
                os.close(fd)


def be(name):
    """With --tenants=process a tenant is a process and its name, so one process can be many."""
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)


def connect(path, kind=socket.SOCK_SEQPACKET):
    connection = socket.socket(socket.AF_UNIX, kind)
    connection.settimeout(30)
    connection.connect(path)
    return connection


def client(daemon, name, *descriptions, lost=0):
    be(name)
    connection = connect(daemon.socket)
    ask(connection, 1, bytes(16))
    for description in descriptions:
        length = len(description)
        ask(connection, 3, struct.pack("<HHHH", 1, 0, 0, length) + description + bytes(-length % 4))
    if lost:
        connection.send(packet(12, struct.pack("<QQ", lost, 1)))
    return connection
