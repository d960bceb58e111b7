#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# terminal.py COLUMNSxLINES STEP… -- COMMAND…: runs a command as a shell would, in front of a terminal of that size, and takes the
# steps one after the other; the first that fails ends it. At the end the terminal must be as it was. Steps:
#
#	see REGEX	comes to be seen, on the screen as it is then		press TEXT	Python's escapes
#	hide REGEX	comes not to be seen any more			resize COLUMNSxLINES
#	fits		a frame fills the terminal, and no more		signal NAME
#	stops		it is stopped, with the terminal given back		continue	brings it back to the front
#	halts		… without that					background	lets it go on behind
#	behind		first of all: it is started in the background
#	ends STATUS	as waitpid() has it; minus a signal		run COMMAND	in a shell

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

TIMEOUT = 60  # seconds
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Failed(Exception):
    pass


class Terminal:
    def __init__(self, size, behind, command):
        self.output = b""
        self.master, slave = os.openpty()
        self.resize(size)
        self.modes = termios.tcgetattr(slave)
        orders, self.orders = os.pipe()
        self.reports, reports = os.pipe()
        if os.fork() == 0:
            os.close(self.orders)
            os.close(self.master)
            shell(slave, orders, reports, behind, command)
        os.close(orders)
        os.close(reports)
        self.slave = slave  # kept open: otherwise the terminal is hung up
        self.pid = int(self.report())

    def report(self):
        """The next line of the shell's reports."""
        line = b""
        while not line.endswith(b"\n"):
            self.take(self.reports)
            byte = os.read(self.reports, 1)
            if not byte:
                raise Failed("the shell is gone")
            line += byte
        return line.decode().strip()

    def take(self, wanted=None, wait=TIMEOUT):
        """Reads what is printed, until there is something to read from `wanted`."""
        deadline = time.monotonic() + wait
        while True:
            ready = select.select([self.master] + ([wanted] if wanted is not None else []), [], [],
                                  max(0, deadline - time.monotonic()))[0]
            if self.master in ready:
                self.output += os.read(self.master, 65536)
            if wanted in ready or (wanted is None and ready):
                return
            if not ready:
                if wanted is None:
                    return
                raise Failed("nothing came of it")

    def frame(self):
        """The lines of the last whole frame."""
        end = self.output.rfind(b"\x1b[J")
        begin = self.output.rfind(b"\x1b[H", 0, max(end, 0))
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.output[begin:end].decode()) if begin >= 0 else ""
        return text.replace("\r", "").split("\n")

    def until(self, complaint, truth):
        deadline = time.monotonic() + TIMEOUT
        while not truth():
            if time.monotonic() > deadline:
                raise Failed(complaint + ". This is seen:\n" + "\n".join(self.frame()))
            self.take(wait=0.1)

    def resize(self, size):
        self.columns, self.lines = (int(number) for number in size.split("x"))
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", self.lines, self.columns, 0, 0))

    def fits(self):
        lines = self.frame()
        return len(lines) == self.lines and all(len(line) <= self.columns for line in lines) and \
            max(len(line) for line in lines) > self.columns // 2 and lines[-1].find("q quit") >= 0

    def is_as_it_was(self):
        return termios.tcgetattr(self.master) == self.modes and self.output.rfind(LEAVE) >= self.output.rfind(ENTER)

    def take_step(self, step, argument):
        if step == "see":
            self.until(f"'{argument}' is not seen", lambda: re.search(argument, "\n".join(self.frame()), re.M))
        elif step == "hide":
            self.until(f"'{argument}' is seen", lambda: not re.search(argument, "\n".join(self.frame()), re.M))
        elif step == "fits":
            self.until("it does not fit", self.fits)
        elif step == "press":
            os.write(self.master, argument.encode().decode("unicode_escape").encode())
        elif step == "resize":
            self.resize(argument)
        elif step == "signal":
            os.kill(self.pid, getattr(signal, "SIG" + argument))
        elif step in ("continue", "background"):
            os.write(self.orders, step[:1].encode())
        elif step == "run":
            subprocess.run(argument, shell=True, check=True, executable="/bin/bash")
        elif step in ("stops", "halts", "ends"):
            wanted, report = f"ends {argument}" if step == "ends" else "stops", self.report()
            if report != wanted:
                raise Failed(f"it {report}, not {wanted}")
            if step != "halts":
                self.until("the terminal is not as it was", self.is_as_it_was)
        if step == "fits" and (termios.tcgetattr(self.master) == self.modes or self.output.rfind(ENTER) < 0):
            raise Failed("it did not take the terminal")


def say(reports, text):
    os.write(reports, (text + "\n").encode())


def shell(terminal, orders, reports, behind, command):
    """One job in front, as a shell with job control has it."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    modes = termios.tcgetattr(terminal)
    if behind:
        own = termios.tcgetattr(terminal)
        own[3] &= ~(termios.ECHO | termios.ICANON)  # as if a line were edited
        termios.tcsetattr(terminal, termios.TCSADRAIN, own)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        if not behind:
            os.tcsetpgrp(terminal, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for number in range(3):
            os.dup2(terminal, number)
        os.execvp(command[0], command)
    say(reports, str(pid))
    while True:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        os.tcsetpgrp(terminal, os.getpgrp())
        if not os.WIFSTOPPED(status):
            say(reports, f"ends {os.waitstatus_to_exitcode(status)}")
            os.read(orders, 1)  # until all is looked at: with the session the terminal ends
            os._exit(0)
        if os.WSTOPSIG(status) != signal.SIGTSTP:
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
        say(reports, "stops")
        order = os.read(orders, 1)
        if order == b"c":
            os.tcsetpgrp(terminal, pid)
        os.killpg(pid, signal.SIGCONT if order else signal.SIGKILL)


def main():
    where = sys.argv.index("--")
    steps = sys.argv[2:where]
    behind = steps[0] == "behind"
    terminal = Terminal(sys.argv[1], behind, sys.argv[where + 1:])
    alone = {"behind", "fits", "stops", "halts", "continue", "background"}
    ended = False
    try:
        for step in iter(lambda: steps.pop(0) if steps else None, None):
            terminal.take_step(step, None if step in alone else steps.pop(0))
            ended = ended or step == "ends"
    except Failed as failure:
        print(failure)
        return 1
    finally:
        if not ended:
            os.kill(terminal.pid, signal.SIGKILL)
    return 0


sys.exit(main())
