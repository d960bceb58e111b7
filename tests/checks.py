# SPDX-License-Identifier: GPL-2.0-or-later
"""For tests in Python: `check("a sentence", faults)` passes if `faults` is empty, and prints it otherwise. sum_up() prints the numbers
and exits.
"""

import os
import sys
import time

# Packages are made from the tree, so tests leave no files in it.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

BUILD = os.path.abspath(os.environ.get("B", "build"))
TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT = 60
_passed, _failed = [], []


def check(sentence, faults):
    if faults:
        _failed.append(sentence)
        print(f"FAIL  {sentence}\n      {str(faults)[:600]}")
    else:
        _passed.append(sentence)
        print(f"ok    {sentence}")
    return not faults


def sum_up():
    print(f"{len(_passed)} passed, {len(_failed)} failed")
    sys.exit(bool(_failed) or not _passed)


def eventually(condition):
    """The result of the condition when it is true, or at the deadline."""
    end = time.monotonic() + TIMEOUT
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return result
