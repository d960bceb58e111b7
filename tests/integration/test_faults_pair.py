#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A sample of what 'make faults-daemon' and 'make faults-keeper' do: a daemon and its keeper on a kernel, and calls of either fail.

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import check, sum_up  # noqa: E402
from pair import Pair  # noqa: E402
from sweep import Injection, Some, sweep, sweep_sample  # noqa: E402

SAMPLE = 12

# What was found to go wrong, and does no more: (the sentence, who fails, faults).
FOUND = (
    ("a daemon that can't talk to its keeper does not try again and again",
     "daemon", [Injection("sendmsg", 30, "EPIPE", True), Injection("sendmsg", 50, "ENOBUFS", True)]),
    ("a daemon does not do without the kernel because its keeper could not be talked to once", "daemon",
     [Injection("connect", 2, "EAGAIN", False), *(Injection("poll", n, "ENOMEM", False) for n in range(9, 13))]),
    ("… nor because that has turned it away once", "keeper", [Injection("getsockopt", 2, "EMFILE", False)]),
    ("a daemon does not end without a word for a socket that it can't use", "daemon",
     [Injection("fcntl", n, "EMFILE", False) for n in (7, 8)]),
    ("a janitor keeps nothing open", "daemon", [Injection("close_range", 3, "EPERM", False)]),
    ("a daemon does not wait for ever for a keeper that can't answer", "keeper", [Injection("sendmsg", 4, "ENOMEM", True)]),
    ("a keeper that is out of memory does not say that it was started by the wrong one",
     "keeper", [Injection("malloc", 1, "ENOMEM", False)]),
    ("how many events there may be is read whole", "keeper", [Injection("malloc", n, "ENOMEM", False) for n in range(22, 28)]),
    ("a page's name that could not be taken away is in nobody's way", "keeper", [Injection("unlinkat", n, "EPERM", False) for n in (1, 2)]),
)


def check_found():
    made = 0
    for sentence, victim, faults in FOUND:
        tally = sweep([Some(faults)], 1, functools.partial(Pair, victim=victim))
        check(sentence, tally.what_went_wrong())
        made += tally.total()
    # Linux 6.1 has a page, and no file of it has a name; nor a maximum.
    check("all of these calls were there to fail, or nearly", made < sum(len(faults) for _, _, faults in FOUND) // 2)


def check_sample(victim):
    tally, everything = sweep_sample(SAMPLE, 1, functools.partial(Pair, victim=victim))
    check(f"whichever call of the {victim}'s fails, the two go on, or end with a word ({tally.total()} of {everything})",
          tally.what_went_wrong())
    check("most of these calls were there to fail", tally.total() < SAMPLE // 2)


check_found()
check_sample("daemon")
check_sample("keeper")
sum_up()
