#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A sample of 'make faults-daemon' and 'make faults-keeper': calls of a daemon or of its keeper fail, on a kernel with user_events.

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import check, sum_up  # noqa: E402
from pair import Pair  # noqa: E402
from sweep import Bench, Injection, Tally, sample_of  # noqa: E402

# Only a small sample with the status page: nearly all of these calls are the same on each kernel.
HAS_STATUS_PAGE = not os.path.exists("/proc/sys/kernel/user_events_max")
SAMPLE = 2 if HAS_STATUS_PAGE else 6

# Faults that were found and corrected: (sentence, victim, faults).
FOUND = (
    ("a daemon does not retry its keeper without a pause",
     "daemon", [Injection("sendmsg", 30, "EPIPE", True), Injection("sendmsg", 50, "ENOBUFS", True)]),
    ("after one failed connection the daemon still uses its keeper", "daemon",
     [Injection("connect", 2, "EAGAIN", False), *(Injection("poll", n, "ENOMEM", False) for n in range(9, 13))]),
    ("after one refused connection the daemon still uses its keeper", "keeper", [Injection("getsockopt", 2, "EMFILE", False)]),
    ("a daemon ends with a message if it can't use a socket", "daemon",
     [Injection("fcntl", n, "EMFILE", False) for n in (7, 8)]),
    ("a janitor keeps no file open", "daemon", [Injection("close_range", 3, "EPERM", False)]),
    ("a daemon has a timeout for a keeper that can't answer", "keeper", [Injection("sendmsg", 4, "ENOMEM", True)]),
    ("a keeper without memory reports that, not a wrong starter",
     "keeper", [Injection("malloc", 1, "ENOMEM", False)]),
    ("the maximum of events is read whole", "keeper", [Injection("read", n, "EIO", False) for n in (1, 2, 3)]),
    ("a page's name that could not be removed does no harm", "keeper", [Injection("unlinkat", n, "EPERM", False) for n in (1, 2)]),
)


def measured(victim):
    bench = Bench(0, functools.partial(Pair, victim=victim))
    bench.measure()
    return bench


def tally_of(bench, injections):
    tally = Tally()
    for result in bench.run_all(injections):
        tally.add(*result)
    return tally


def check_found(benches):
    for sentence, victim, faults in FOUND:
        tally = tally_of(benches[victim], faults)
        check(sentence, tally.failures() or ("" if tally.total() else "none of these calls was made: their numbers have changed"))


def check_sample(victim, bench):
    everything = [injection for task in sample_of(bench.calls, [], 1) for injection in task]
    tally = tally_of(bench, everything[::max(1, len(everything) // SAMPLE)])
    print(tally.summary())
    check(f"after a failed call of the {victim} both go on or end with a message ({tally.total()} of {len(everything)})", tally.failures())
    check("most of these calls were reached", tally.total() < SAMPLE // 2)


BENCHES = {victim: measured(victim) for victim in ("daemon", "keeper")}
if not HAS_STATUS_PAGE:
    check_found(BENCHES)
for name, its_bench in BENCHES.items():
    check_sample(name, its_bench)
sum_up()
