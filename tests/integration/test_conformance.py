#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The behaviour of every client, independent of its language: see tests/conformance/README. Runs on the host with the embedded
# backend, and in guests with the kernel's.

import contextlib
import json
import os
import shutil
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from running import BUILD, CTL, Lines, running, scratch_directory, unprivileged  # noqa: E402
from checks import TREE, check, eventually, sum_up  # noqa: E402

SUITE = os.path.join(TREE, "tests/conformance")
DRIVERS = {
    "C": ["driver"],
    "Python": ["/usr/bin/python3", "driver.py"],  # which all users may run
    "shell": ["driver.sh", "userevctl", "emit"],
    "shell, by a stream": ["driver.sh", "userevctl", "stream"],
    "Go": ["driver_go"],
    "Java": ["/usr/bin/java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "driver_java.jar", "Driver"],
    "Node": ["/usr/bin/node", "driver.js"],
    "Rust": ["driver_rust"],
    "C with musl": ["driver_musl"],
    "C on arm64": ["qemu-aarch64", "driver_arm64"],
}
# Those of `make machines` are run by tests/machines.
MACHINES = {"driver_musl": "musl/tests/driver", "driver_arm64": "arm64/tests/driver"}
OPTIONAL = {"driver_go": "tests/driver_go", "driver_java.jar": "tests/driver_java.jar", "driver_rust": "tests/driver_rust", **MACHINES}
NODE_PACKAGE = os.path.join(BUILD, "node/package")
FILES = [os.path.join(BUILD, "tests/driver"), SUITE + "/driver.js", SUITE + "/driver.py", SUITE + "/driver.sh", CTL]


class Wrong(Exception):
    pass


def expect(true, problem):
    if not true:
        raise Wrong(problem)


# Converts values of cases.json to the drivers' notation.

def text_of(value):
    return value.get("behind", "") and value["text"] + value["behind"] * value["times"] or value["text"] * value["times"] \
        if isinstance(value, dict) else value


def escaped(text):
    return "".join(chr(byte) if 0x20 <= byte < 0x7f and byte != ord("%") else f"%{byte:02x}" for byte in text.encode())


def word_of(value):
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    if "hex" in value:
        return "#" + value["hex"]
    return '"' + escaped(text_of(value))


def read_as(values):
    """The values as a tracer reads them."""
    return {name: text_of(value) if isinstance(value, (str, dict)) else value for name, value in values.items()}


class Run:
    """Runs all cases with one driver."""

    def __init__(self, daemon, command, directory):
        self.daemon, self.names = daemon, {}
        files = [os.path.join(directory, word) if os.path.exists(os.path.join(directory, word)) else word for word in command]
        self.driver = Lines(files, stdin=-1, bufsize=1, env={**daemon.environment, "PYTHONPATH": directory}, **unprivileged())
        self.can = self.tell("can").split()
        self.tails = {"": daemon.tail("--wait", "conf_*")}

    def tell(self, *words):
        self.driver.process.stdin.write("\t".join(words) + "\n")
        answer = self.driver.next()
        expect(answer and not answer.startswith("error"), f"to {words} the driver replies '{answer}'")
        return answer

    def end(self):
        self.driver.process.stdin.close()
        self.driver.end()
        for tail in self.tails.values():
            tail.end()

    def await_on(self, name):
        if "hold" in self.can:
            expect(self.tell("await", name, "yes") == "yes", f"{name} is not on")
        else:
            expect(eventually(lambda: self.daemon.is_on(name)), f"{name} is not on")

    # Steps.

    def register(self, description, part=None):
        answer = self.tell("register", text_of(description))
        if part is None:
            expect(answer == "ok", answer)
        else:
            expect(answer.startswith("refused ") and part in answer, f"'{answer}' instead of a refusal with '{part}'")

    def write(self, name, values, wanted):
        if wanted != "off":
            self.await_on(name)
        answer = self.tell("write", name, *(f"{field}={word_of(value)}" for field, value in values.items()))
        wanted = ("written", "sent") if wanted == "written" else (wanted,)
        expect(answer.split()[0] in wanted, f"'{answer}' instead of '{wanted[0]}'")

    def record(self, name, values, read=None):
        self.write(name, values, "written")
        line = (self.tails.get(name) or self.tails[""]).next()
        expect(line, "no record came")
        came = json.loads(line)
        wanted = {"event": name, "fields": read or read_as(values)}
        came = {key: came.get(key) for key in wanted}
        expect(came == wanted, f"{came} instead of {wanted}"[:400])

    def emit(self, name, values):
        """Tests the event, and writes if it is on, until a record is read: as a program whose daemon has ended."""
        words = [f"{field}={word_of(value)}" for field, value in values.items()]
        tail = self.tails.get(name) or self.tails[""]

        def is_read():
            self.tell("write", name, *words)
            time.sleep(0.1)
            return not tail.is_empty()

        expect(eventually(is_read), f"{name} is not traced again")
        line = tail.next()
        expect(json.loads(line)["fields"] == values, f"'{line}' instead of {values}")
        # The driver may have written again before the record was read.
        while tail.next(1):
            pass

    def off(self, name):
        expect(self.tell("await", name, "no") == "no", f"{name} is on")

    def trace(self, name):
        self.tails[name] = self.daemon.tail("--wait", name)

    def untrace(self, name):
        self.tails.pop(name).end()

    def own(self, pattern):
        self.own_tail = self.daemon.own_tail(pattern)
        expect(eventually(lambda: self.daemon.json("status")["own_traces"] == 1), "the tenant's own trace does not begin")

    def own_record(self, name, values):
        """Is in the tenant's own trace, and in the machine's if that has the event."""
        self.await_on(name)
        if name in self.tails:
            expect(eventually(lambda: self.daemon.is_on(name)), f"{name} is not on for the machine's tracer")
            self.record(name, values)
        else:
            self.write(name, values, "written")
        line = self.own_tail.next()
        expect(line, "no record came to the tenant's own trace")
        came = json.loads(line)
        expect((came["event"], came["fields"]) == (name, read_as(values)), f"{came} instead of {values}"[:400])

    def unown(self):
        expect(self.own_tail.is_empty(), "there are other records in the tenant's own trace")
        self.own_tail.end()

    def release(self, name):
        expect(self.tell("release", name) == "ok", "it is not released")

    def use(self, number):
        expect(self.tell("use", str(number)) == "ok", "there is no connection")

    def change_daemon(self, how):
        if how == "stop":
            self.tails.pop("").end()
            self.daemon.stop()
        elif how == "another":
            expect(self.daemon.second_fails(), "a second daemon starts on the same sockets")
        elif how == "kill":
            self.tails.pop("").end()
            self.daemon.kill_all()
        else:
            expect(self.daemon.start(), "the daemon does not start")
            self.tails[""] = self.daemon.tail("--wait", "conf_*")

    def step(self, kind, *arguments):
        getattr(self, "change_daemon" if kind == "daemon" else kind)(*arguments)

    def unread(self):
        return [tail.next(0) for tail in self.tails.values() if not tail.is_empty()]

    def case(self, case):
        try:
            while self.unread():
                pass  # records of a failed case
            for step in case["steps"]:
                at = f"at {json.dumps(step)[:300]}: "
                self.step(*step)
            left = self.unread()
            return f"unexpected records: {left}" if left else None
        except (Wrong, OSError, ValueError) as error:
            return at + (str(error) if isinstance(error, Wrong) else traceback.format_exc())


def copy_files(directory):
    """Copies them to where unprivileged users can read them."""
    for file in FILES:
        shutil.copy(file, directory)
    for name, file in OPTIONAL.items():
        if os.path.exists(os.path.join(BUILD, file)):
            shutil.copy(os.path.join(BUILD, file), os.path.join(directory, name))
    if os.path.exists(NODE_PACKAGE):
        shutil.copytree(NODE_PACKAGE, directory + "/node_modules/userev")
    shutil.copytree(TREE + "/client/python/userev", directory + "/userev", ignore=shutil.ignore_patterns("__pycache__"))


@contextlib.contextmanager
def policies():
    """Options that make the daemon's answers independent of the kernel's support of multi-format events."""
    with scratch_directory() as directory:
        with open(directory + "/one-format.conf", "w", encoding="utf-8") as file:
            file.write("[/]\nAllowMultiFormat=no\nOwnTracing=yes\n")
        yield "--policy=" + directory


def run_driver(language, command, cases):
    with policies() as option, running(option) as daemon:
        copy_files(daemon.directory)
        run = Run(daemon, command, daemon.directory)
        backend = daemon.json("status")["backend"]
        for case in cases:
            if set(case.get("needs", ())) <= set(run.can) and backend in case.get("where", (backend,)):
                check(f"{language}: {case['title']}", run.case(case))
        run.end()
    return backend


def default_languages():
    """Those of $LANGUAGES, or all where the backend is embedded. Programs of shells write with the library for C, and before Linux 6.4 all clients
    see one page."""
    if "LANGUAGES" in os.environ:
        return os.environ["LANGUAGES"].split(",")
    if not os.path.exists("/sys/kernel/tracing/user_events_data"):
        return [language for language, command in DRIVERS.items() if command[-1] not in MACHINES]
    return ["C", "Python"] if os.path.exists("/proc/sys/kernel/user_events_max") else ["C"]


def main():
    with open(SUITE + "/cases.json", encoding="utf-8") as file:
        cases = json.load(file)
    wanted = sys.argv[1:] or default_languages()
    for language, command in DRIVERS.items():
        if language in wanted:
            print(f"backend: {run_driver(language, command, cases)}")
    sum_up()


main()
