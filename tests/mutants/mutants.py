#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later

"""Puts faults into the sources, one at a time, and checks that the tests find them.

faults.txt beside this script describes each fault: its effect, the old text and the new text in one file, and the suites that may find
it. Each fault has to be found by the suite that the table names under "found". With --record each fault is tried on its "tests" in turn,
and the table gets the result.

All of it happens in a copy of the checkout and of the build. The exit status is 0 if all faults were found, 1 if not, 2 for an error in
the table or the options."""

import argparse
import configparser
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
TABLE = os.path.join(HERE, "faults.txt")
PREFIX = os.path.join(tempfile.gettempdir(), "userevd-mutants-")
KEYS = {"breaks", "file", "old", "new", "tests", "found", "case", "missing"}
NOT_FOUND = "nothing"
# Longer than any suite of the table takes: a fault that makes a suite hang is found then.
SUITE_LIMIT, GUEST_LIMIT = 240, 600
# The programs that integration tests start, beside the installed ones.
PROGRAMS = "driver emitter direct hammer kill_at restart_load static_program static_plugin.so userevd-next".split()


def fail(sentence):
    print(f"mutants.py: {sentence}", file=sys.stderr)
    sys.exit(2)


class Fault:
    def __init__(self, name, fields):
        self.name = name
        for key in KEYS:
            setattr(self, key, fields.get(key, ""))
        self.tests = self.tests.split()
        for key in ("breaks", "file", "old", "tests"):
            if not getattr(self, key):
                fail(f"{name}: '{key} =' is missing")
        if set(fields) - KEYS:
            fail(f"{name}: unknown key '{(set(fields) - KEYS).pop()}'")

    def find(self, root):
        """The file's text, and the match of the old text, with any line breaks."""
        words = re.findall(r"\w+|[^\w\s]", self.old)
        pattern = words[0] if words[0].isalnum() else re.escape(words[0])
        for before, word in zip(words, words[1:]):
            both_words = re.match(r"\w", before) and re.match(r"\w", word)
            pattern += (r"\s+" if both_words else r"\s*") + re.escape(word)
        if re.match(r"\w", self.old):
            pattern = r"\b" + pattern
        try:
            with open(os.path.join(root, self.file), encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            raise LookupError(f"{self.name}: there is no file {self.file}; to which file was its code moved?") from None
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise LookupError(f"{self.name}: {self.file} has the old text {len(found)} times instead of once: {self.old}")
        return text, found[0]


def read_table():
    table = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None, empty_lines_in_values=False)
    try:
        table.read(TABLE, encoding="utf-8")
    except configparser.Error as error:
        fail(str(error).replace("\n", " "))
    return [Fault(name, dict(table[name])) for name in table.sections()]


def write_result(name, found, case):
    """Changes these two lines of one section. Several processes may do so at once."""
    lines, inside = [], False
    lock = os.open(HERE, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            if line.startswith("["):
                inside = line.strip() == f"[{name}]"
            if inside and re.match(r"(found|case) =", line):
                continue
            lines.append(line)
            if inside and line.startswith("tests ="):
                lines.append(f"found = {found}\n")
                if case:
                    lines.append(f"case = {case}\n")
    with open(TABLE + ".new", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(TABLE + ".new", TABLE)
    os.close(lock)


def sources(pattern):
    return sorted(path for folder in ("unit", "integration", "guard", "kernel", "systemd")
                  for path in glob.glob(f"tests/{folder}/**/{pattern}", recursive=True))


class Copy:
    """A copy of the checkout, in which faults are built and tested."""

    def __init__(self, build):
        remove_leftovers()
        self.root = tempfile.mkdtemp(prefix=PREFIX)
        # Locked as long as this process lives.
        self.lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.chmod(self.root, 0o755)
        self.child = None
        self.passes = {}  # suite → whether it passes without a fault
        try:
            self.fill(build)
        except BaseException:
            self.close()
            raise
        os.chdir(self.root)

    def fill(self, build):
        """All files of git and the build, so that a fault only rebuilds the changed file."""
        os.chdir(CHECKOUT)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                stdout=subprocess.PIPE, check=True).stdout
        names = [name for name in listed.split(b"\0") if name and os.path.lexists(name)]
        subprocess.run(["cp", "-a", "--parents", "--", *names, self.root], check=True)
        if not os.path.isdir(build):
            return
        # Without other kinds of builds and logs.
        others = [f"--exclude=./{name}" for name in ("asan", "confined", "coverage", "deb", "fuzz*", "logs", "tsan")]
        archive = os.path.join(self.root, "build.tar")
        subprocess.run(["tar", "-C", build, "--format=posix", *others, "-cf", archive, "."], check=True)
        os.mkdir(f"{self.root}/build")
        subprocess.run(["tar", "-C", f"{self.root}/build", "-xf", archive], check=True)
        os.unlink(archive)

    def close(self):
        if self.child and self.child.poll() is None:
            self.child.terminate()
            self.child.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *command):
        """The exit status and the output. The command ends with this process."""
        environment = dict(os.environ, TEST_LIMIT=str(SUITE_LIMIT), GUEST_LIMIT=str(GUEST_LIMIT))
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "B"):
            environment.pop(name, None)
        self.child = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], env=environment, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        output = self.child.communicate()[0]
        return self.child.returncode, output

    def build(self, suites):
        """Builds the suites, without warnings, since a fault may leave something unused."""
        targets = set()
        for suite in suites:
            name = suite.partition(":")[2] or suite
            source = find_source(name)
            if source.endswith(".c"):
                targets.add(f"build/tests/{name}")
            if not source.startswith("tests/unit/") or not source.endswith(".c"):
                targets |= {"build", *(f"build/tests/{program}" for program in PROGRAMS)}
        status, output = self.run("make", f"-j{os.cpu_count()}", "DEPENDENCIES=skip", "LTO=", "WARNINGS=-w", *sorted(targets))
        return None if status == 0 else output

    def test(self, suites):
        """The suites that fail, each with the name of its first failure."""
        command, place = ["tests/run-tests.sh"], None
        for suite in suites:
            guest, _, name = suite.rpartition(":")
            if guest != place:
                command += ["--guest", guest, "build"] if guest else ["--", "build"]
            place = guest
            source = find_source(name)
            command.append(f"build/tests/{name}" if source.endswith(".c") else source)
        status, output = self.run(*command)
        if status == 0:
            return []
        failed = []
        for name, rest in re.findall(r"^  (?:\x1b\S*)?FAIL\S*\s+([\w.+-]+)(.*?)(?=^  \S|\Z)", output, re.M | re.S):
            case = re.search(r":[FE]:[^:]*:([^:]+):", rest) or re.search(r"^ *(?:FAIL|not ok|failed):? +(.*)$", rest, re.M)
            suite = next((s for s in suites if s.rpartition(":")[2] == name), name)
            failed.append((suite, case.group(1).strip() if case else ""))
        if not failed:
            fail("run-tests.sh failed without a reason:\n" + output)
        return failed


def find_source(name):
    found = sources(name if "." in name else name + ".c")
    if len(found) != 1:
        fail(f"there is no suite {name}")
    return found[0]


def remove_leftovers():
    """Removes the copies of killed processes, which are not locked."""
    for place in glob.glob(PREFIX + "*"):
        try:
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)
            os.close(fd)
        except OSError:
            pass


def try_fault(copy, fault, suites):
    """The first of the suites that finds the fault and its first failure, None, or a sentence why it could not be tried."""
    text, match = fault.find(copy.root)
    path = os.path.join(copy.root, fault.file)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:match.start()] + fault.new + text[match.end():])
    try:
        output = copy.build(suites)
        if output is not None:
            return "it does not build: " + " ".join(re.findall(r"error: .*", output)[:1] or output.splitlines()[-1:])
        failed = copy.test(suites)
        return failed[0] if failed else None
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def passes_without_fault(copy, suite):
    """Tried twice if it fails, since a busy machine may be the reason."""
    if suite not in copy.passes:
        print(f"without a fault: {suite}", flush=True)
        output = copy.build([suite])
        if output is not None:
            fail("the checkout does not build:\n" + output[-2000:])
        copy.passes[suite] = not copy.test([suite]) or not copy.test([suite])
    return copy.passes[suite]


def try_suites(copy, fault, suites):
    """The first of the suites that finds the fault and its first failure, None, or a sentence why it could not be tried."""
    for suite in suites:
        if not passes_without_fault(copy, suite):
            return f"{suite} fails without any fault"
        result = try_fault(copy, fault, [suite])
        if result:
            return result
    return None


def is_lost(fault):
    try:
        fault.find(CHECKOUT)
    except LookupError as error:
        print(f"mutants.py: {error}", file=sys.stderr)
        return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check that each old text exists exactly once")
    parser.add_argument("--only", metavar="NAME", action="append",
                        help="the faults whose names or files begin with NAME; may be given again")
    parser.add_argument("--record", action="store_true", help="write into the table which suite finds each fault")
    parser.add_argument("--build", default=os.path.join(CHECKOUT, "build"), metavar="DIR", help="the build to begin with")
    options = parser.parse_args()

    faults = read_table()
    if options.only:
        faults = [f for f in faults if any(f.name.startswith(only) or f.file.startswith(only) for only in options.only)]
        if not faults:
            fail("there is no such fault")
    lost = [fault for fault in faults if is_lost(fault)]
    if lost:
        fail(f"{len(lost)} of {len(faults)} faults are not where the table says; move them along")
    if options.check:
        print(f"{len(faults)} faults, each with its old text in its place")
        return 0
    if not options.record:
        for fault in faults:
            if not fault.found:
                print(f"{fault.name} has no record; make one with --record --only={fault.name}")
        faults = [fault for fault in faults if fault.found and fault.found != NOT_FOUND]

    # SIGTERM and SIGHUP end the process by an exception, which removes the copy.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    began = time.monotonic()
    copy = Copy(os.path.abspath(options.build))
    bad = []
    try:
        os.chdir(copy.root)
        for i, fault in enumerate(faults, 1):
            start = time.monotonic()
            result = try_suites(copy, fault, fault.tests if options.record else [fault.found])
            if isinstance(result, str):
                words = result
                bad.append(fault.name)
            elif result:
                words = "found by " + result[0] + (f" ({result[1]})" if result[1] else "")
            else:
                words = "NOT FOUND"
                if not options.record:
                    bad.append(fault.name)
            if options.record and not isinstance(result, str):
                write_result(fault.name, *(result or (NOT_FOUND, "")))
            print(f"{i:3}/{len(faults)} {fault.name:<36} {words}, {time.monotonic() - start:.0f} s", flush=True)
    except KeyboardInterrupt:
        return 130
    finally:
        os.chdir("/")
        copy.close()
    print(f"{len(faults)} faults in {(time.monotonic() - began) / 60:.0f} minutes")
    if bad:
        print(f"{'could not be tried' if options.record else 'no longer found, or not tried'}: {' '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
