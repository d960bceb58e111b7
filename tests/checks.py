# SPDX-License-Identifier: GPL-2.0-or-later
"""For tests in Python: `check("a sentence", what_is_wrong)` counts, sum_up() says the numbers and exits.

Nothing is wrong where that is empty. It is shown where it is not.
"""

import os
import sys
import time

# The tree is what packages are made of: nothing is to be left in it.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

BUILD = os.path.abspath(os.environ.get("B", "build"))
TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE = 60
_passed, _failed = [], []


def check(sentence, wrong):
    if wrong:
        _failed.append(sentence)
        print(f"FAIL  {sentence}\n      {str(wrong)[:600]}")
    else:
        _passed.append(sentence)
        print(f"ok    {sentence}")
    return not wrong


def sum_up():
    print(f"{len(_passed)} passed, {len(_failed)} failed")
    sys.exit(bool(_failed) or not _passed)


def eventually(condition):
    """What it says once it is true, or at last."""
    end = time.monotonic() + PATIENCE
    while not (said := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return said
