#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The report of `make bench`, from the output of a script instead of a benchmark.

import os
import re
import runpy
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from checks import TREE, check, sum_up  # pylint: disable=wrong-import-position

PROGRAM = r"""#!/bin/sh
printf 'row\tone that is reached\tns\tours\t10\t9\t12\ttheirs\t10\t8\t11\t1.05\n'
printf 'row\tone that is missed\tus\tours\t30000\t29000\t31000\ttheirs\t10000\t9000\t11000\t1.05\n'
printf 'row\tone without an aim\tus\tours\t5\t5\t5\ttheirs\t10\t9\t11\t0\n'
printf 'row\ta number alone\tKiB\tours\t4000\t4000\t4000\t\t\t\t\t3072\n'
printf 'row\tnothing at all\t\tours\t0\t0\t0\t\t\t\t\t0.001\n'
printf 'missing\ta question\ttheirs\tnot installed\n'
printf 'note\ta sentence\n'
echo 'a complaint' >&2
exit 3
"""

REPORT = """Prose before.
<!-- tables: written by make bench REPORT=1 -->
of last time
<!-- end of the tables -->
Prose behind.
"""


def run(directory):
    """(the report, the output)"""
    program, report = os.path.join(directory, "tests/bench_quota"), os.path.join(directory, "report.md")
    os.mkdir(os.path.dirname(program))
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    os.chmod(program, 0o755)
    with open(report, "w", encoding="utf-8") as file:
        file.write(REPORT)
    done = subprocess.run([os.path.join(TREE, "tests/bench/run.py"), "--only=quota", "--places=native", "--report=" + report, directory],
                          capture_output=True, text=True, check=False)
    check("a failed program is the exit status", done.returncode != 1 and (done.returncode, done.stderr))
    with open(report, encoding="utf-8") as file:
        return file.read(), done.stdout


def row(text, question):
    return next((line for line in text.splitlines() if question in line), "no row: " + question)


def lacks(text, *patterns):
    return [pattern for pattern in patterns if not re.search(pattern, text)] and text


with tempfile.TemporaryDirectory() as scratch:
    written, printed = run(scratch)

check("a ratio within its aim is reached", lacks(row(written, "one that is reached"), r"\| 1\.000 \| ≤ 1\.05 \| yes \|$"))
check("a ratio beyond its aim is missed, in a readable unit",
      lacks(row(written, "one that is missed"), r"30\.0 ms \(29\.0 ms – 31\.0 ms\) .* 10\.0 ms .*\| 3\.000 \| ≤ 1\.05 \| \*\*no\*\* \|$"))
check("without an aim there is no verdict", lacks(row(written, "without an aim"), r"\| 0\.500 \|  \|  \|$"))
check("a number alone is compared with its aim", lacks(row(written, "a number alone"), r"4000 KiB \|.*\| ≤ 3072 KiB \| \*\*no\*\* \|$"))
check("zero reaches an aim of almost zero", lacks(row(written, "nothing at all"), r"\| 0 \| yes \|$"))
check("a missing measurement is listed with its reason", lacks(written, r"- a question, beside theirs: not measured, not installed"))
check("notes, complaints and failures stand below the table",
      lacks(written, r"- a sentence", r"- a complaint", r"\*\*bench_quota failed\*\* \(exit status 3\)"))
check("the sum counts comparisons and aims", lacks(written, r"5 comparisons, 4 of them with an aim: 2 reached"))
check("the machine is described", lacks(written, r"\d+ processors \(", r"Linux \d"))
check("new tables replace the old ones between the prose",
      lacks(written, r"^Prose before\.", r"Prose behind\.\s*$") or "of last time" in written and written)
# In a guest that counts instructions each one is a nanosecond.
run_py = runpy.run_path(os.path.join(TREE, "tests/bench/run.py"))
counted = run_py["Section"]("counted", counted=True)
for line in ("row\tin microseconds\tus\tours\t30\t29\t31\ttheirs\t60000\t60000\t60000\t1",
             "row\tin nanoseconds\tns\tours\t1964\t1964\t1964\t\t\t\t\t0", "row\tno time\tKiB\tours\t12\t12\t12\t\t\t\t\t0"):
    counted.take(line)
counted = counted.markdown()
check("a counting guest's times are instructions",
      lacks(row(counted, "microseconds"), r"ours: 30\.0 k \(29\.0 k – 31\.0 k\) \| theirs: 60\.0 M \| 0\.0005 \|.*yes")
      or lacks(row(counted, "nanoseconds"), r"ours: 1964 instructions"))
check("other units are not converted", lacks(row(counted, "no time"), r"ours: 12\.0 KiB"))
check("in a pipe there are no colours", "\033" in printed and printed)
sum_up()
