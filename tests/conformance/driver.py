#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver of the Python client: see README."""

import sys
import time
import urllib.parse

from userev import Userev

TIMEOUT = 60
connections = {}


class Connection:
    def __init__(self):
        self.userev, self.events = Userev(deadline=10), {}

    def register(self, description):
        event = self.userev.event(description)
        self.userev.poll(10)
        if event.refusal:
            event.release()
            return f"refused {event.refusal.sentence}"
        self.events[description.split()[0].split(":")[0]] = event
        return "ok"

    def wait(self, name, state):
        end = time.monotonic() + TIMEOUT
        while self.events[name].enabled != (state == "yes") and time.monotonic() < end:
            time.sleep(0.005)
        return "yes" if self.events[name].enabled else "no"

    def write(self, name, *assignments):
        event, too_big, queue_full = self.events[name], self.userev.too_big, self.userev.queue_full
        event.problem = None
        if not event.enabled:
            return "off"
        if event.emit(**dict(value_of(assignment) for assignment in assignments)):
            return "written"
        if event.problem:
            return f"wrong {event.problem}"
        return "lost" if (too_big, queue_full) != (self.userev.too_big, self.userev.queue_full) else "off"

    def measure(self, name, turns):
        event, begin = self.events[name], time.perf_counter_ns()
        for turn in range(int(turns)):
            if event.enabled:
                event.emit(404, turn, "/favicon.ico")
        return str(time.perf_counter_ns() - begin)

    def release(self, name):
        self.events.pop(name).release()
        self.userev.poll(10)
        return "ok"


def value_of(assignment):
    name, text = assignment.split("=", 1)
    if text.startswith('"'):
        return name, urllib.parse.unquote_to_bytes(text[1:])
    if text.startswith("#"):
        return name, bytes.fromhex(text[1:])
    if text.startswith("["):
        return name, [int(number) for number in text[1:-1].split(",") if number]
    return name, int(text)


def obey(current, command, *words):
    if command == "can":
        return current, "hold answer connections"
    if command == "use":
        return connections.setdefault(words[0], Connection()), "ok"
    if command == "await":
        return current, current.wait(*words)
    return current, getattr(current, command)(*words)


def main():
    current = connections["0"] = Connection()
    for line in sys.stdin:
        current, answer = obey(current, *line.rstrip("\n").split("\t"))
        print(answer, flush=True)


main()
