#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# After `userevctl disable --wait` no record of the event arrives from any CPU or process. Runs on the embedded backend, and in guests on
# the kernel's.

import contextlib
import glob
import os
import re
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from running import BUILD, Lines, running, unprivileged  # noqa: E402
from checks import TIMEOUT, check, eventually, sum_up  # noqa: E402

PROCESSES, THREADS, ROUNDS = os.cpu_count() or 1, 2, 5
TRACEFS = "/sys/kernel/tracing"
REST = 0.2


@contextlib.contextmanager
def hammered(daemon, name):
    shutil.copy(BUILD + "/tests/hammer", daemon.directory)
    hammers = [Lines([daemon.directory + "/hammer", name + " u64 n", str(THREADS)], env=daemon.environment, **unprivileged())
               for _ in range(PROCESSES)]
    try:
        yield check("programs hammer on an event", [h for h in hammers if h.next() != "ready"])
    finally:
        for hammer in hammers:
            hammer.end()


def count(daemon, name):
    """Records so far; on a kernel those in ftrace's first buffer."""
    if daemon.json("status")["backend"] == "embedded":
        return sum(event["records"] for event in daemon.json("events") if event["event"] == name)
    total = 0
    for path in glob.glob(TRACEFS + "/per_cpu/cpu*/stats"):
        with open(path, encoding="utf-8") as file:
            total += sum(int(number) for number in re.findall(r"^(?:entries|overrun): (\d+)", file.read(), re.M))
    return total


def grows(daemon, name):
    before = count(daemon, name)
    return eventually(lambda: count(daemon, name) != before)


def failed(result, status=0):
    return None if result.returncode == status else f"{result.returncode}: {result.stdout} {result.stderr}"


def check_quiet(daemon):
    with hammered(daemon, "hammered"):
        loud = []
        for _ in range(ROUNDS):
            check("the event is enabled", failed(daemon.ctl("enable", "hammered")))
            check("records arrive", not grows(daemon, "hammered"))
            check("the event is disabled with --wait", failed(daemon.ctl("disable", "--wait", "hammered")))
            before = count(daemon, "hammered")
            time.sleep(REST)
            loud.append(count(daemon, "hammered") - before)
        check(f"no record arrives after disable --wait, in {ROUNDS} rounds", loud if any(loud) else None)


def check_others(daemon):
    """A second tracer uses the event."""
    with hammered(daemon, "wanted"):
        tail = daemon.tail("--wait", "wanted")
        check("a tail enables the event", not tail.next())
        reader = threading.Thread(target=lambda: [None for _ in iter(lambda: tail.next(1), "")])
        reader.start()
        result = daemon.ctl("disable", "--wait", "--timeout=1", "wanted")
        check("--wait fails at its --timeout while a tail traces", failed(result, 1))
        check("--wait reports that the event is still on", None if "still on" in result.stderr else result.stderr)
        waiting = Lines([BUILD + "/userevctl", "disable", "--wait", "wanted"], env=daemon.environment)
        check("without --timeout it waits", None if waiting.next(3) == "" else "it does not")
        tail.end()
        line = waiting.next()
        check("--wait ends after the tail", None if waiting.process.wait(TIMEOUT) == 0 and "off" in line else line)
        waiting.end()
        check("the event is off", daemon.is_on("wanted"))
        reader.join()


with running() as running_daemon:
    check_quiet(running_daemon)
    check_others(running_daemon)
    check("an unknown event is an error", failed(running_daemon.ctl("disable", "--wait", "nowhere"), 1))
sum_up()
