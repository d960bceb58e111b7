#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Carries out CONTRIBUTING.md: in a copy of the sources both examples apply, build without a warning, and pass the tests that the page names.
# Hunks are as the page has them: without numbers of lines.

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import TREE, check, sum_up  # noqa: E402

PAGE = "CONTRIBUTING.md"
FOLDERS = ["Makefile", "README.md", "client", "daemon", "kernel", "protocol", "systemd", "tests"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def find(lines, start, wanted):
    """The first line from there for which `wanted` holds."""
    for i in range(start, len(lines)):
        if wanted(lines[i]):
            return i
    raise LookupError


def apply(root, path, hunk):
    """Lines are added behind the last line of their context; behind the line of their @@; or at the end of the file."""
    name = os.path.join(root, path)
    lines = read(name).split("\n")
    at = len(lines) - 1
    for i, line in enumerate(hunk):
        kind, text = line[:1], line[1:]
        try:
            if line.startswith("@@ "):
                anchor = line[3:].split("...")[0]
                at = find(lines, 0, lambda there: anchor in there) + 1
            elif kind == "+":
                lines.insert(at, text)
                at += 1
            elif kind == " " and i > 0 and hunk[i - 1][:1] == "+":
                if lines[at] != text:
                    raise LookupError
                at += 1
            elif kind == " ":
                at = find(lines, at if i > 0 else 0, lambda there: there == text) + 1
            else:
                raise LookupError
        except LookupError:
            return [f"{path}: no such place: {line}"]
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return []


def apply_block(root, block):
    faults, files = [], re.split(r"^--- a/(.*)\n", block, flags=re.M)
    for path, hunk in zip(files[1::2], files[2::2]):
        if os.path.exists(os.path.join(root, path)):
            faults += apply(root, path, hunk.splitlines())
        else:
            faults.append(f"there is no {path}")
    return faults or ([] if len(files) > 1 else ["it is empty"])


def run(root, *command, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS")}
    environment.update(variables, B="build", CK_VERBOSITY="normal")
    done = subprocess.run(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    return done.returncode, done.stdout


def main():
    sections = re.findall(r"^## (Add .*?)\n(.*?)(?=^## )", read(os.path.join(TREE, PAGE)), re.M | re.S)
    check("the page has two examples", [] if len(sections) == 2 else [name for name, _ in sections])
    with tempfile.TemporaryDirectory(prefix="userevd-contributing-") as root:
        os.chmod(root, 0o755)
        for name in FOLDERS:
            path = os.path.join(TREE, name)
            shutil.copytree(path, os.path.join(root, name), symlinks=True) if os.path.isdir(path) else shutil.copy(path, root)
        for name, text in sections:
            faults = [fault for block in re.findall(r"^```diff\n(.*?)^```$", text, re.M | re.S) or [""] for fault in apply_block(root, block)]
            if not check(f"'{name}': each hunk has its place", faults):
                sum_up()
            check(f"'{name}': each file of the list is changed",
                  [path for path in re.findall(r"\*\*`([\w./]+\.\w+)`\*\*", text) if f"--- a/{path}\n" not in text])
        page = "".join(text for _, text in sections)
        suites = sorted(set(re.findall(r"`(build/tests/\w+)`", page)))
        # Of a suite that gets a case of its own, that case alone.
        cases = dict(re.findall(r"^--- a/tests/\S*/(test_\w+)\.c\n(?:\+\n)?\+\w*TEST\((\w+)", page, re.M))
        # Unoptimised, since the sources are built once for this, or are in ccache from the last time.
        compiler = "CC=ccache cc" if shutil.which("ccache") else "CC=cc"
        status, output = run(root, "make", f"-j{os.cpu_count()}", "DEPENDENCIES=skip", "CFLAGS=-O0", compiler, *suites,
                             *(f"build/{name}" for name in ("userevd", "userevd-keeper", "userevctl", "libuserev.a")))
        if check("both examples build", [] if status == 0 else re.findall(r".*error.*", output) or output[-500:]):
            for suite in suites:
                name = os.path.basename(suite)
                status, output = run(root, suite, **({"CK_RUN_CASE": cases[name]} if name in cases else {}))
                check(f"{name} passes", [] if status == 0 and "100%" in output and "Checks: 0" not in output else output[-600:])
            status, output = run(root, sys.executable, "tests/unit/test_man.py")
            check("test_man.py passes", re.findall(r"^FAIL.*\n.*", output, re.M) or output[-600:] if status else [])


main()
sum_up()
