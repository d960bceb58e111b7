#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the benchmarks, those that need no user_events on the host and the others in guests. Prints tables, and writes them and plots
below BUILD/bench/. With --check it runs the short programs in a guest that counts instructions, and compares their ratios with
tests/bench/limits.txt: a test."""

import argparse
import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
BEGIN, END = "<!-- tables: written by make bench REPORT=1 -->", "<!-- end of the tables -->"

# In the order of the report.
NATIVE = ["off", "macro", "languages", "embedded", "start", "declared", "two", "connections", "quota", "reload", "idle"]
# Measured by the guest's clock, which counts instructions.
COUNTED = ["off", "record", "macro", "start", "declared", "shared", "register", "growth", "neighbour", "admission"]
# These wait for a disk, a timer or an RCU grace period, where the clock of instructions jumps, or need no clock.
TIMED = ["tail", "switch", "restart", "idle", "count"]
# Each in a guest of its own, because it leaves up to 30,000 events, which the kernel deletes slowly.
ALONE = ["growth", "neighbour", "idle", "count", "admission"]
# Where the kernel has no room for 30,000 events and no guard.
NOT_ON = {"6.1": ["neighbour", "count", "admission"]}
# Left out with --quick.
LEFT_OUT = {"6.1": ["start", "declared", "shared", "register", "tail", "switch", "restart", "idle"]}
# Seconds: of a program, and of a guest with all of them.
LIMITS = {False: (900, 1800), True: (300, 600)}

# What --check runs, on this kernel, and its table of limits.
CHECKED = ["off", "macro", "record", "start", "register", "shared", "admission"]
CHECKED_KERNEL = "6.12"
CHECK_LIMITS = HERE / "limits.txt"
# A limit is the measured ratio and this margin. Ratios repeat within 1 %.
MARGIN = 1.05

# The loops that callgrind counts, and their names. The first is ours; the second is its aim: there is one load more.
LOOPS = {"loop_event": "userev_emit", "loop_word": "enable word", "rival_lttng": "lttng-ust",
         "rival_usdt": "USDT with semaphore", "loop_empty": "empty loop"}
TURNS = 100000

# Each plot's title and axes.
PLOTS = {
    "latency": ("A request, by open connections", "connections", "µs (median)"),
    "throughput": ("Requests a second, by busy clients", "clients", "requests/s"),
    "quota": ("A decision of the quota ledger", "tenants", "ns"),
    "register": ("First registration by one program", "new events", "thousand instructions per event"),
    "switch": ("Turning one event on", "programs that hold it", "µs"),
    "growth": ("One more event", "events that are registered", "thousand instructions"),
}


class Row:
    """One comparison: a line of a program's output."""

    def __init__(self, words):
        self.question, self.unit = words[0], words[1]
        self.ours, self.theirs = self.side(words[2:6]), self.side(words[6:10])
        self.aim = float(words[10])

    @staticmethod
    def side(words):
        """Name, median, minimum and maximum; None if there is no such side."""
        return (words[0], *(float(word) for word in words[1:])) if words[0] else None

    @property
    def ratio(self):
        return self.ours[1] / self.theirs[1] if self.theirs and self.theirs[1] else None

    @property
    def least_ratio(self):
        """Of the minima: if the guest had to wait, its clock of instructions jumped, which only adds."""
        return self.ours[2] / self.theirs[2] if self.theirs and self.theirs[2] else None

    @property
    def reached(self):
        """None without an aim."""
        if not self.aim:
            return None
        value = self.ratio if self.theirs else self.ours[1]
        return None if value is None else value <= self.aim

    def cells(self):
        ratio = "" if self.ratio is None else "%.3f" % self.ratio if self.ratio >= 0.01 else "%.2g" % self.ratio
        return [self.question, self.named(self.ours), self.spread(self.ours), self.named(self.theirs), self.spread(self.theirs), ratio,
                self.wanted(), {None: "", True: "yes", False: "**no**"}[self.reached]]

    def wanted(self):
        """The aim: a ratio, or a value where there is no other side."""
        if not self.aim:
            return ""
        if self.aim < 0.01:
            return "0"
        return "≤ %g" % self.aim if self.theirs else "≤ " + self.number(self.aim)

    def named(self, side):
        return "%s: %s" % (side[0], self.number(side[1])) if side else ""

    def number(self, value):
        """Three digits, in a suitable unit."""
        unit = self.unit
        for smaller, larger in (("ns", "us"), ("us", "ms"), ("ms", "s")):
            if unit == smaller and abs(value) >= 10000:
                value, unit = value / 1000, larger
        if unit == "instructions" and abs(value) >= 10000:
            value, unit = (value / 1e6, "M") if abs(value) >= 1e6 else (value / 1000, "k")
        digits = max(0, 2 - len(str(int(abs(value))).lstrip("0"))) + 1 if value else 0
        text = "%.*f" % (min(digits, 3), value) if abs(value) < 100 else "%.0f" % value
        return ("%s %s" % (text, "µs" if unit == "us" else unit)).strip()

    def spread(self, side):
        return "" if side is None or side[2] == side[3] else "%s – %s" % (self.number(side[2]), self.number(side[3]))


def in_instructions(words):
    """Converts the times of a guest whose nanosecond is one instruction."""
    scale = {"ns": 1, "us": 1000, "ms": 1000000}.get(words[1])
    if not scale:
        return words
    figures = [word if not word or i in (0, 4) else "%.6g" % (float(word) * scale) for i, word in enumerate(words[2:10])]
    # An aim without another side is a value.
    aim = words[10] if words[6] else "%g" % (float(words[10]) * scale)
    return [words[0], "instructions", *figures, aim]


HEADINGS = ["question", "ours (minimum – maximum)", "other", "ratio", "to reach", "reached"]
ALIGNMENT = ["---", "---", "---", "--:", "--:", "---"]


def with_spread(figure, spread):
    return "%s (%s)" % (figure, spread) if spread else figure


class Section:
    """The measurements of one place: the host, or a guest whose clock may count instructions."""

    def __init__(self, title, counted=False):
        self.title, self.counted = title, counted
        self.rows, self.notes, self.points = [], [], []
        self.times = []
        self.failed = False

    def take(self, line):
        kind, *words = line.rstrip("\r\n").split("\t")
        if kind == "row" and len(words) == 11:
            self.rows.append(Row(in_instructions(words) if self.counted else words))
            return self.rows[-1]
        if kind == "point" and len(words) == 4:
            self.points.append((words[0], words[1], float(words[2]), float(words[3])))
        elif kind == "missing" and len(words) == 3:
            self.notes.append("%s, beside %s: not measured, %s" % tuple(words))
        elif kind == "took":
            self.times.append("%s %s s" % tuple(words))
        elif kind == "note":
            if words[0] not in self.notes:
                self.notes.append(words[0])
        elif kind == "failed":
            self.fail("bench_%s failed" % words[0], words[1])
        elif line.strip():
            self.notes.append(line.strip())
        return None

    def fail(self, what, status):
        self.notes.append("**%s** (exit status %s)" % (what, status))
        self.failed = True

    def markdown(self):
        table = [HEADINGS, ALIGNMENT]
        for row in self.rows:
            question, ours, our_spread, theirs, their_spread, *rest = row.cells()
            table.append([question, with_spread(ours, our_spread), with_spread(theirs, their_spread), *rest])
        lines = ["### " + self.title, ""] + ["| " + " | ".join(cells) + " |" for cells in table]
        return "\n".join(lines + [""] + ["- " + note for note in self.notes]) + "\n"


class Terminal:
    """Prints rows as they arrive, on a terminal in colour."""

    WIDTHS = [60, 32, 34, 10, 12]

    def __init__(self):
        self.coloured = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def paint(self, text, colour):
        return "\033[%dm%s\033[0m" % (colour, text) if self.coloured else text

    def title(self, text):
        print("\n" + self.paint(text, 1))
        print(self.line(["question", "ours: median [spread]", "other: median [spread]", "ratio", "to reach"]), flush=True)

    def line(self, cells):
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, self.WIDTHS))

    def row(self, row):
        question, ours, our_spread, theirs, their_spread, ratio, aim, _ = row.cells()
        line = self.line([question, ours, theirs, ratio, aim])
        verdict = {None: "", True: self.paint("reached", 32), False: self.paint("MISSED", 31)}[row.reached]
        print(line + verdict)
        if our_spread or their_spread:
            print(self.line(["", "  [%s]" % our_spread, "  [%s]" % their_spread if their_spread else ""]).rstrip())
        sys.stdout.flush()


def instructions(build, section, terminal):
    """The instructions of one iteration of each loop, counted by callgrind."""
    counts = {}
    for loop in LOOPS:
        out = build / "bench" / ("callgrind." + loop)
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=%s" % out, "--toggle-collect=" + loop,
                               build / "tests/bench_off", str(TURNS)], capture_output=True, text=True, check=False)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text() if out.exists() else "", re.M)
        if not found:
            section.notes.append("instructions of %s: valgrind failed: %s" % (loop, done.stderr.strip()[-200:]))
            return
        counts[loop] = int(found.group(1)) / TURNS
    for loop in list(LOOPS)[1:]:
        ours, theirs = ["%.2f" % counts[name] for name in ("loop_event", loop)]
        row = section.take("\t".join(["row", "test of an event that is off, a turn of a loop", "instructions",
                                      LOOPS["loop_event"], ours, ours, ours, LOOPS[loop], theirs, theirs, theirs,
                                      "1.2" if loop == "loop_word" else "0"]))
        terminal.row(row)


def follow(process, section, terminal):
    for line in process.stdout:
        row = section.take(line)
        if row:
            terminal.row(row)
    return process.wait()


def run_native(build, section, terminal, names, limits):
    for name in names:
        began = time.time()
        command = ["timeout", "-k", "5", str(limits[0]), build / ("tests/bench_" + name)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT) as process:
            status = follow(process, section, terminal)
        if status:
            section.take("failed\t%s\t%d" % (name, status))
        section.take("took\t%s\t%d" % (name, time.time() - began))
        if name == "off":
            instructions(build, section, terminal)


# The guest's files are the host's. While it waits for one, its clock of instructions jumps, so the programs' files are in memory.
GUEST_SCRIPT = """mount -t tmpfs memory /mnt
programs=$(ls "$B"/userevd "$B"/userevd-keeper "$B"/userevd-guard "$B"/userevctl "$B"/tests/bench_*[a-z] "$B"/tests/*.so 2>/dev/null)
for file in /etc/ld.so.cache $programs $(ldd $programs 2>/dev/null | grep -o '/[^ :]*[^ :)]' | sort -u); do
	file=$(realpath "$file") copy=/mnt/$(basename "$file")
	[ -e "$copy" ] || { cp "$file" "$copy" && mount --bind "$copy" "$file"; }
done
for name in "$@"; do
	SECONDS=0
	timeout -k 5 %d "$B/tests/bench_$name" 2>&1 || printf 'failed\\t%%s\\t%%s\\n' "$name" $?
	printf 'took\\t%%s\\t%%s\\n' "$name" $SECONDS
done"""


def run_guest(build, section, terminal, kernel, names, limits):
    program_limit, guest_limit = limits
    command = ["tests/vm/run-guest.sh", "--counting" if section.counted else "--for-measuring", "--limit=%d" % guest_limit, kernel, "--", "env",
               *(["COUNTING=1"] if section.counted else []), "QUICK=" + os.environ["QUICK"], "B=%s" % build, "bash", "-c", GUEST_SCRIPT % program_limit, "bench", *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT,
                          env={**os.environ, "B": str(build)}) as process:
        status = follow(process, section, terminal)
    if status:
        section.fail("The guest failed", status)


def plot(build, place, points):
    """Draws an SVG of each plot with points."""
    for name in dict.fromkeys(point[0] for point in points):
        title, x_label, y_label = PLOTS[name]
        series = dict.fromkeys(point[1] for point in points if point[0] == name)
        data = "\n".join("$d%d << E\n%s\nE" % (i, "\n".join("%g %g" % p[2:] for p in points if p[:2] == (name, one)))
                         for i, one in enumerate(series))
        script = """set terminal svg size 720,420 font 'sans,13'
set output '%s'
set title "%s (%s)"
set xlabel '%s'
set ylabel '%s'
set logscale xy
set grid
set key top left
%s
plot %s
""" % (build / "bench" / ("%s-%s.svg" % (name, place)), title, place, x_label, y_label, data,
            ", ".join("$d%d with linespoints lw 2 title '%s'" % (i, one) for i, one in enumerate(series)))
        if not shutil.which("gnuplot") or subprocess.run(["gnuplot"], input=script, text=True, check=False).returncode:
            print("gnuplot has not drawn %s" % name, file=sys.stderr)


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def machine():
    """Describes this machine."""
    processor = re.search(r"^model name\s*: (.*)$", read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", read("/proc/meminfo"), re.M)
    virtual = "a virtual machine" if "hypervisor" in read("/proc/cpuinfo") else "no virtual machine"
    system = re.search(r'^PRETTY_NAME="(.*)"$', read("/etc/os-release"), re.M)
    return "%d processors (%s), %d GB of memory, %s, Linux %s, %s" % (
        os.cpu_count(), processor.group(1) if processor else platform.machine(), int(memory.group(1)) // 1000000 if memory else 0,
        system.group(1) if system else "unknown", platform.release(), virtual)


def accelerator():
    cache = os.environ.get("USEREVD_CACHE") or os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache")) + "/userevd"
    known = read(cache + "/accelerator").splitlines()
    return "by KVM" if known[1:2] == ["kvm"] else "emulated (TCG): ratios count, times do not"


def guest_title(kernel, counted):
    return "In a guest, Linux %s, %s" % (kernel, "in instructions, the kernel's included" if counted else accelerator())


def guests_of(names):
    """The programs of each guest."""
    together = [name for name in names if name not in ALONE]
    return ([together] if together else []) + [[name] for name in names if name in ALONE]


def write_report(path, text):
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(before + BEGIN + "\n\n" + text + "\n" + END + after)
    print("written: %s" % path)


def summary(sections, began, quick):
    rows = [row for section in sections for row in section.rows]
    aimed = [row for row in rows if row.reached is not None]
    return "%d comparisons, %d of them with an aim: %d reached. %s%s, in %d minutes and %d seconds, on %s.\n" % (
        len(rows), len(aimed), sum(row.reached for row in aimed), datetime.date.today().isoformat(),
        " (QUICK: fewer rounds, and nothing large)" if quick else "", *divmod(int(time.time() - began), 60), machine())


def sections_of(place, wanted, quick):
    """The sections of a place, each with its programs."""
    if place == "native":
        parts = [(Section("On this machine itself, Linux " + platform.release()), NATIVE)]
    else:
        parts = [(Section(guest_title(place, counted), counted), names) for counted, names in ((True, COUNTED), (False, TIMED))]
    left_out = NOT_ON.get(place, []) + (LEFT_OUT.get(place, []) if quick else [])
    return [(section, names) for section, names in ((section, [name for name in names if name in wanted and name not in left_out])
                                                    for section, names in parts) if names]


def measure(place, section, names, build, terminal, limits):
    terminal.title(section.title)
    if place == "native":
        run_native(build, section, terminal, names, limits)
    else:
        for together in guests_of(names):
            run_guest(build, section, terminal, place, together, limits)
        # The accelerator is known now.
        section.title = guest_title(place, section.counted)
    for note in section.notes:
        print("  - " + note)
    print("  took: " + ", ".join(section.times))


def read_limits():
    """The limit of each pair of question and other side. The file's comments explain it."""
    lines = (line.split(" | ") for line in CHECK_LIMITS.read_text().splitlines() if line and not line.startswith("#"))
    return {(question.strip(), other.strip()): float(limit) for limit, question, other in lines}


def record_limits(ratios):
    """Writes today's ratios and the margin into the table; comments and the choice of rows stay."""
    lines = []
    for line in CHECK_LIMITS.read_text().splitlines():
        if line and not line.startswith("#"):
            _, question, other = (word.strip() for word in line.split(" | "))
            if (question, other) in ratios:
                line = "%.3f | %s | %s" % (ratios[question, other] * MARGIN, question, other)
        lines.append(line)
    CHECK_LIMITS.write_text("\n".join(lines) + "\n")


def check(build, limits, record):
    """Compares ratios with their limits; prints a sum as run-tests.sh reads it."""
    section = Section(guest_title(CHECKED_KERNEL, True), counted=True)
    measure(CHECKED_KERNEL, section, CHECKED, build, Terminal(), limits)
    rows = {(row.question, row.theirs[0]): row for row in section.rows if row.theirs}
    ratios = {key: row.least_ratio for key, row in rows.items()}
    if record:
        record_limits({key: row.ratio for key, row in rows.items()})
    failed, wanted = int(section.failed), read_limits()
    print()
    for (question, other), limit in wanted.items():
        ratio = ratios.get((question, other))
        if ratio is None or ratio > limit:
            failed += 1
            print("FAIL: %s, beside %s: %s, and the limit is %g" % (question, other, "not measured" if ratio is None else "%.3f" % ratio, limit))
        elif ratio < limit / MARGIN * 0.9:
            print("%s, beside %s: %.3f, far below the limit of %g; record it (--record)" % (question, other, ratio, limit))
    print("%d passed, %d failed" % (len(wanted) + int(section.failed) - failed, failed))
    return failed > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="in a few minutes")
    parser.add_argument("--report", type=pathlib.Path, help="the file whose tables are to be replaced")
    parser.add_argument("--only", default="", help="only these programs, named without bench_")
    parser.add_argument("--timeout-factor", type=int, default=1, help="multiplies all time limits, for busy machines")
    parser.add_argument("--places", default="native,6.12,6.1", help="host and kernels (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="compare ratios with limits.txt, and nothing else")
    parser.add_argument("--record", action="store_true", help="the same, and write today's ratios and 5 %% as the limits")
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    asked = parser.parse_args()
    asked.quick |= asked.check or asked.record
    began, terminal, sections = time.time(), Terminal(), []
    limits = [limit * asked.timeout_factor for limit in LIMITS[asked.quick]]
    (asked.build / "bench").mkdir(parents=True, exist_ok=True)
    os.environ["QUICK"] = "1" if asked.quick else ""
    if asked.check or asked.record:
        return check(asked.build, limits, asked.record)
    wanted = asked.only.split(",") if asked.only else NATIVE + COUNTED + TIMED
    for place in asked.places.split(","):
        for section, names in sections_of(place, wanted, asked.quick):
            sections.append(section)
            measure(place, section, names, asked.build, terminal, limits)
            plot(asked.build, place, section.points)
    text = summary(sections, began, asked.quick) + "\n" + "\n".join(section.markdown() for section in sections)
    (asked.build / "bench/results.md").write_text(text)
    print("\n" + text.splitlines()[0])
    if asked.report:
        write_report(asked.report, text)
    return any(section.failed for section in sections)


if __name__ == "__main__":
    sys.exit(main())
