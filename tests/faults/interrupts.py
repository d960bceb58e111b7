#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# interrupts.py [--every=K] [--jobs=N]: userevctl gets SIGINT or SIGTERM before each of its calls of the C library. It has to end, disable
# the events that it enabled for its own time, and remove its files and processes.

import argparse
import collections
import ctypes
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BUILD, TIMEOUT, eventually  # noqa: E402
from plan import Plan  # noqa: E402
from scenario import Broken, Client, Daemon  # noqa: E402

CTL = BUILD + "/userevctl"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PR_SET_CHILD_SUBREAPER = 36
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
# Each of them ends soon.
COMMANDS = (
    ("status",), ("events",), ("tenants", "--json"), ("metrics",), ("reload",), ("doctor",), ("policy", "show"), ("disable", "--wait", "first"),
    ("enable", "first"), ("emit", "mine u32 a", "a=1"), ("tail", "--count=1", "first"), ("tail", "--past", "--no-follow"),
    ("run", "--", CTL, "emit", "ours u32 a", "a=1"), ("top",),
)
# Only these may leave an event on.
LASTING = ("enable", "disable")

Interruption = collections.namedtuple("Interruption", "command signal point")


def describe(interruption):
    return f"userevctl {' '.join(interruption.command)}, {interruption.signal.name} before call {interruption.point}"


class Stage:
    """A daemon with one program, and a terminal."""

    def __init__(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.directory = self._scratch.name
        os.chmod(self.directory, 0o755)
        self.temporary = self.directory + "/tmp"
        os.mkdir(self.temporary)
        self.daemon = Daemon(self.directory, Plan(self.directory + "/daemon-plan"))
        if not self.daemon.start():
            raise Broken(self.daemon.log())
        self.client = Client(self.daemon, "one", TIMEOUT)
        self.client.hello()
        self.client.register("first u32 a")
        self.master, self.slave = os.openpty()
        self.modes = termios.tcgetattr(self.slave)

    def close(self):
        self.client.close()
        self.daemon.terminate()

    def _start(self, command, plan):
        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        environment = {**plan.environment(), "TMPDIR": self.temporary, "TERM": "xterm", "USEREV_SOCKET": self.daemon.socket,
                       "USEREV_CONTROL_SOCKET": self.daemon.control}
        return subprocess.Popen([CTL, *command], stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment,
                                preexec_fn=take_terminal)

    def _wait(self, process, press):
        """Reads the output, presses a key when top has begun, and writes a record while the event is on."""
        output, end = b"", time.monotonic() + TIMEOUT
        os.set_blocking(self.master, False)
        while process.poll() is None:
            try:
                output += os.read(self.master, 65536)
                if press and b"quit" in output:
                    os.write(self.master, press)
                    press = None
            except BlockingIOError:
                time.sleep(0.002)
            if self.client.is_on("first"):
                self.client.write("first", 1)
            if time.monotonic() > end:
                process.kill()
                raise Broken("it does not end")
        try:
            while data := os.read(self.master, 65536):
                output += data
        except (BlockingIOError, OSError):
            pass
        return output

    def _check(self, interruption, status, output):
        number = interruption.signal
        if status not in (0, 1, 3, 125, 128 + number, -number):
            raise Broken(f"it ended with {status}: {output[-300:]}")
        if termios.tcgetattr(self.slave) != self.modes or output.rfind(LEAVE) < output.rfind(ENTER):
            termios.tcsetattr(self.slave, termios.TCSANOW, self.modes)
            raise Broken("the terminal was not restored")
        expect_no_process_but(self.daemon)
        if os.listdir(self.temporary):
            raise Broken(f"it has left {os.listdir(self.temporary)}")
        if interruption.command[0] in LASTING:
            self.daemon.ctl("disable", "first")
        elif not eventually(lambda: not self.client.is_on("first")):
            raise Broken("an event is still on")

    def run(self, interruption):
        """(whether the call was reached without an error, the error or "")"""
        plan = Plan(self.directory + "/plan")
        plan.interrupt(interruption.signal, interruption.point)
        try:
            process = self._start(interruption.command, plan)
            output = self._wait(process, b"q" if interruption.command[0] == "top" else None)
            self._check(interruption, process.returncode, output)
        except Broken as broken:
            return False, str(broken)
        except Exception:  # pylint: disable=broad-except
            return False, traceback.format_exc()
        return plan.points() >= interruption.point, ""


def expect_no_process_but(daemon):
    """A process that userevctl has left would be our child."""
    def is_alone():
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as file:
            children = {int(pid) for pid in file.read().split()} - {daemon.process.pid}
        for pid in children:
            os.waitpid(pid, os.WNOHANG)
        return not children

    if not eventually(is_alone):
        raise Broken("it has left a process behind")


def work(every, tasks, results):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stage = Stage()
    for first, command, number in iter(tasks.get, None):
        point, reached = first, True
        while reached:
            interruption = Interruption(command, number, point)
            reached, wrong = stage.run(interruption)
            results.put((interruption, reached, wrong))
            point += every
    stage.close()
    results.put(None)


def interrupt_all(every, jobs):
    """(numbers of interruptions, [errors])"""
    tasks, results, n, wrong = multiprocessing.Queue(), multiprocessing.Queue(), collections.Counter(), []
    # The first points differ, so that the chains together reach all calls that commands have in common.
    chains = [(1 + i % every, command, number) for i, (command, number) in
              enumerate((command, number) for command in COMMANDS for number in SIGNALS)]
    for task in chains + [None] * jobs:
        tasks.put(task)
    workers = [multiprocessing.Process(target=work, args=(every, tasks, results)) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in workers:
        for interruption, reached, said in iter(results.get, None):
            n[" ".join(interruption.command)] += reached
            if said:
                wrong.append(f"{describe(interruption)}: {said}")
                print("FAIL  " + wrong[-1], flush=True)
    for worker in workers:
        worker.join()
    return n, wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    n, wrong = interrupt_all(options.every, options.jobs)
    for command, times in n.items():
        print(f"{times:6}  userevctl {command}")
    print(f"interrupted {sum(n.values())} times: {len(wrong)} went wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
