# SPDX-License-Identifier: GPL-2.0-or-later
"""Daemon and keeper on a kernel with user_events, started as by systemd: each gets its listening sockets, which outlive it, and is
restarted when it ends. One of them has the faults."""

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BUILD, TIMEOUT  # noqa: E402
from plan import VICTIMS  # noqa: E402
from scenario import CLEAN_EXITS, Broken, Daemon, GaveUp, until  # noqa: E402

TRACEFS = "/sys/kernel/tracing"
NOBODY = 65534
PAUSE = 0.1  # before a restart
STDERR = 2


def has_user_events():
    return os.geteuid() == 0 and os.path.exists(TRACEFS + "/user_events_data")


def events():
    with open(TRACEFS + "/user_events_status", encoding="ascii") as file:
        return {line.split()[0] for line in file if line.strip() and ":" not in line.split()[0]}


def listen(path, mode, owner=0):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    os.chmod(path, mode)
    os.chown(path, owner, owner)
    return listener


def spawn(command, listeners, names, environment, keep, log):
    """The child gets the sockets as from systemd. The fault is in its environment, not in that of the shell that starts it."""
    high = [fcntl.fcntl(listener, fcntl.F_DUPFD, 64) for listener in listeners]
    places = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(high))
    script = f'LISTEN_PID=$$ LISTEN_FDS={len(high)} LISTEN_FDNAMES={names} exec env "$@" {places}'
    process = subprocess.Popen(["bash", "-c", script, "bash", *(f"{name}={value}" for name, value in environment.items()), *command],
                               pass_fds=[*high, *keep], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    for fd in high:
        os.close(fd)
    return process


class Pair(Daemon):
    """`victim`, "daemon" or "keeper", has the faults."""

    backend_is_embedded = False

    def __init__(self, directory, plan, victim="daemon"):
        super().__init__(directory, plan)
        self.victim, self.is_over = victim, False
        for name in ("socket", "control", "keeper", "log"):
            if os.path.exists(f"{directory}/{name}"):
                os.unlink(f"{directory}/{name}")
        self.listeners = [listen(self.socket, 0o666), listen(self.control, 0o600)]
        self.keepers = listen(directory + "/keeper", 0o600, NOBODY)
        for listener in self.listeners:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.keeper = None
        self.events_before = events()
        self.supervisor = threading.Thread(target=self._supervise, daemon=True)
        self.ended_badly = ""

    def _program(self, role, name):
        if role != self.victim:
            return f"{BUILD}/{name}"
        # A library can be preloaded only into a dynamic program.
        return f"{VICTIMS}/tests/dynamic/{name}" if role == "keeper" else f"{VICTIMS}/{name}"

    def _environment(self, role):
        environment = self.plan.environment()
        return {name: environment[name] for name in ("LD_PRELOAD", "FAULTS", "ASAN_OPTIONS")} if role == self.victim else {}

    def _open_log(self):
        return open(self.directory + "/log", "a", encoding="utf-8")

    def _start_keeper(self):
        with self._open_log() as log:
            self.keeper = spawn([self._program("keeper", "userevd-keeper"), "--guard=off", "--hold=60"], [self.keepers], "keeper",
                                self._environment("keeper"), [], log)

    def _supervise(self):
        """Restarts the keeper, like systemd."""
        while not self.is_over:
            status = self.keeper.wait()
            if self.is_over:
                return
            if status not in CLEAN_EXITS:
                self.ended_badly = f"the keeper ended with {status}"
            time.sleep(PAUSE)
            self._start_keeper()

    def start(self):
        if not self.keeper:
            self._start_keeper()
            self.supervisor.start()
        ready, ready_end = os.pipe()
        with self._open_log() as log:
            self.process = spawn(
                [self._program("daemon", "userevd"), "--foreground", "--tenants=process", "--user=nobody", "--client-timeout=600", "--backend=auto",
                 "--policy=" + self.directory + "/policy", f"--keeper-socket={self.directory}/keeper", f"--ready-fd={ready_end}"],
                self.listeners, "clients:control", self._environment("daemon"), [ready_end], log)
        os.close(ready_end)
        listens = bool(select.select([ready], [], [], TIMEOUT)[0]) and os.read(ready, 1) == b"\n"
        os.close(ready)
        if not listens and not self.has_ended(TIMEOUT):
            raise Broken("it neither starts nor ends")
        return listens

    def restart(self):
        """The successor takes the state over."""
        self.terminate()
        if not self.start():
            raise GaveUp("the successor does not start")

    def revive(self):
        return self.start()

    def check_words(self):
        super().check_words()
        if self.ended_badly:
            raise Broken(self.ended_badly)

    def stop_keeper(self):
        self.is_over = True
        if self.keeper:
            self.keeper.send_signal(signal.SIGTERM)
            try:
                self.keeper.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                raise Broken("the keeper does not end") from None
            self.supervisor.join()

    def _switch_off(self):
        """A test that gave up may have left events on, which the kernel then keeps."""
        for name in events() - self.events_before:
            with contextlib.suppress(OSError), open(f"{TRACEFS}/events/user_events/{name}/enable", "w", encoding="ascii") as file:
                file.write("0")

    def finish(self):
        self.stop_keeper()
        self._switch_off()
        if not until(lambda: not events() - self.events_before, TIMEOUT):
            raise Broken(f"the kernel still has {events() - self.events_before}")

    def kill(self):
        self.is_over = True
        super().kill()
        if self.keeper and self.keeper.poll() is None:
            self.keeper.kill()
            self.keeper.wait()
        for listener in (*self.listeners, self.keepers):
            listener.close()
