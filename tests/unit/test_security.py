#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Each row of "Attacks that were tried" in SECURITY.md names existing targets of the Makefile and existing tests.

import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import TREE, check, sum_up  # noqa: E402


def source(path):
    with open(os.path.join(TREE, path), encoding="utf-8") as file:
        return file.read()


def is_test(name):
    return glob.glob(os.path.join(TREE, "tests/*", name)) or glob.glob(os.path.join(TREE, "tests/*", name + ".*"))


def main():
    makefile, page = source("Makefile") + source("tests/tests.mk"), source("SECURITY.md")
    rows = re.findall(r"^\|.*\|$", page.partition("## Attacks that were tried")[2].partition("### ")[0], re.M)[2:]
    check("the table has rows", [] if len(rows) > 5 else [len(rows)])
    for row in rows:
        attack, often, lost, command = [cell.strip() for cell in row.strip("|").split("|")]
        targets, tests = re.findall(r"`make ([\w-]+)", command), re.findall(r"`(test_[\w.]+)`", command)
        check(f"'{attack[:60]}' can be repeated",
              [f"make {target}" for target in targets if not re.search(rf"^(?:[\w-]+ )*{target}(?: [\w-]+)*:", makefile, re.M)] +
              [test for test in tests if not is_test(test)] +
              ["no command"] * (not targets) + ["no figure, or no outcome"] * (not often or not lost))
    check("its links exist",
          [link for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page) if not os.path.exists(os.path.join(TREE, link))])


main()
sum_up()
