#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""unless-known.py VERSION <LINES: for each line, "SOURCE<tab>COMMAND", runs the command, unless it has succeeded before with the same
texts: VERSION, the command, the source, and all headers that it includes, under whichever condition. The outcome must depend on nothing
else. Successes are recorded below $USEREVD_CACHE (default ~/.cache/userevd), for two months after their last use."""

import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include(?:_next)?[ \t]*["<]([^">\n]+)[">]', re.M)
KEPT = 60 * 24 * 3600


def printed(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@functools.cache
def system_folders():
    return (printed("gcc", "-print-file-name=include"), "/usr/include/" + printed("gcc", "-print-multiarch"), "/usr/include")


@functools.cache
def folders_of(command):
    """Those of its options -I and -isystem, and the compiler's."""
    words = shlex.split(command)
    after = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-isystem"]
    return tuple([word[2:] for word in words if re.match("-I.", word)] + after) + system_folders()


@functools.cache
def read(file):
    """Its digest, and the names that it includes."""
    text = pathlib.Path(file).read_bytes()
    return hashlib.sha256(text).hexdigest(), [os.fsdecode(name) for name in INCLUDE.findall(text)]


@functools.cache
def find(name, folders):
    paths = (os.path.normpath(os.path.join(folder, name)) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def texts(source, folders):
    found, unread = {source}, [source]
    while unread:
        file = unread.pop()
        new = {find(name, (os.path.dirname(file),) + folders) for name in read(file)[1]} - found - {None}
        found |= new
        unread += new
    return [(file, read(file)[0]) for file in sorted(found)]


def succeeds(record, command):
    if record.exists():
        record.touch()
    elif subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, check=False).returncode == 0:
        record.touch()
    else:
        return False
    return True


def main():
    version, cache = sys.argv[1], os.environ.get("USEREVD_CACHE") or \
        os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "userevd")
    known = pathlib.Path(cache, "known")
    known.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        outcomes = []
        for source, command in (line.rstrip("\n").split("\t", 1) for line in sys.stdin):
            key = repr((version, command, texts(source, folders_of(command))))
            outcomes.append(pool.submit(succeeds, known / hashlib.sha256(key.encode()).hexdigest(), command))
    for record in known.iterdir():
        if record.stat().st_mtime < time.time() - KEPT:
            record.unlink(missing_ok=True)
    return 0 if all(outcome.result() for outcome in outcomes) else 1


sys.exit(main())
