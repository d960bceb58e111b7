#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sweep.py [--jobs=N] [--every=K] [--fail=VICTIM] [FUNCTION…]: repeats the life of a daemon (scenario.py); each time a different call of
# the C library fails, with each of its errnos, once or permanently. --every tries each K-th of all these, the same ones each time. The
# VICTIM is the daemon alone, with the embedded backend, or on a kernel with user_events the daemon or the keeper of a pair.

import argparse
import collections
import errno
import functools
import multiprocessing
import os
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import TIMEOUT  # noqa: E402
from pair import Pair  # noqa: E402
from plan import FOR_EVER, Plan  # noqa: E402
from scenario import SHORT, Broken, Daemon, GaveUp, check_service, live, until  # noqa: E402

# The errnos of each call.
FILES = ("EMFILE", "ENFILE", "ENOMEM")
PATHS = ("EACCES", "ENOENT", "EIO")
ERRORS = {
    "accept4": ("EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "ECONNABORTED", "EINTR", "EPERM"),
    "bind": ("EADDRINUSE", "EACCES", "ENOMEM", "EROFS"),
    "clone": ("EAGAIN", "ENOMEM"),
    "connect": ("ECONNREFUSED", "EAGAIN", "EACCES"),
    "dup2": ("EBUSY", "EINTR"),
    "epoll_create": FILES,
    "epoll_create1": FILES,
    "epoll_ctl": ("ENOMEM", "ENOSPC"),
    "epoll_pwait": ("EINTR",),
    "epoll_wait": ("EINTR",),
    "eventfd": FILES,
    "fallocate": ("ENOSPC", "ENOMEM", "EINTR"),
    "fcntl": ("EMFILE", "ENOMEM"),
    "fopen": ("EMFILE", *PATHS),
    "fork": ("EAGAIN", "ENOMEM"),
    "ftruncate": ("ENOSPC", "ENOMEM", "EINTR"),
    "getline": ("EIO", "ENOMEM"),
    "getrandom": ("EINTR", "ENOSYS"),
    "getsockopt": ("EMFILE", "ENFILE", "ESRCH", "ENOPROTOOPT", "EINVAL"),
    "getxattr": ("ENODATA", "EOPNOTSUPP", "ENOENT"),
    "ioctl": ("ENOMEM", "EINTR", "ENOTTY"),
    "mlock": ("ENOMEM", "EPERM"),
    "mmap": ("ENOMEM", "EAGAIN"),
    "mremap": ("ENOMEM",),
    "memfd_create": FILES,
    "open": (*FILES, *PATHS),
    "openat": (*FILES, *PATHS),
    "opendir": (*FILES, *PATHS),
    "pipe": FILES,
    "pipe2": FILES,
    "poll": ("EINTR", "ENOMEM"),
    "posix_spawn": ("EAGAIN", "ENOMEM", "ENOENT"),
    "pthread_create": ("EAGAIN",),
    "read": ("EINTR", "EIO"),
    "recv": ("EINTR", "ECONNRESET", "EAGAIN"),
    "recvmsg": ("EINTR", "ECONNRESET", "EAGAIN"),
    "send": ("EINTR", "EPIPE", "ENOBUFS", "EAGAIN"),
    "sendmsg": ("EINTR", "ENOMEM", "EPIPE", "ENOBUFS", "ETOOMANYREFS", "EAGAIN", "EMSGSIZE"),
    "setresuid": ("EAGAIN", "EPERM"),
    "shutdown": ("ENOTCONN",),
    "socket": FILES,
    "socketpair": FILES,
    "stat": PATHS,
    "statx": ("ENOSYS", *PATHS),
    "syscall": ("EMFILE", "ENOSYS", "ESRCH"),
    "timerfd_create": FILES,
    "waitpid": ("EINTR", "ECHILD"),
    "write": ("EIO", "ENOSPC"),
}
ANY = ("ENOMEM", "EPERM")
MEMORY = ("malloc", "calloc", "realloc")
# Temporary errors: a program may wait for their end.
ONCE_ONLY = ("EINTR", "EAGAIN", "EBUSY", "ECONNABORTED", "ETOOMANYREFS")
# With more calls than this, and no request, the program spins.
CALLS_AT_REST = 400
TRIES = 3

Injection = collections.namedtuple("Injection", "function n error for_ever")


def describe(injection):
    return f"{injection.function}() number {injection.n}{' and all after it' if injection.for_ever else ''}: {injection.error}"


def kinds_of(function):
    """The ways in which a call may fail."""
    errors = ("ENOMEM",) if function in MEMORY else ERRORS.get(function, ANY)
    return [(error, for_ever) for error in errors for for_ever in (False, True) if not (for_ever and error in ONCE_ONLY)]


# The embedded backend's directory of pages, the read-only view of it, a marker and a timer.
PAGES_FDS = 4


class Bench:
    """The directory of a worker, and the numbers of a life without faults."""

    def __init__(self, number, make=Daemon):
        self._scratch = tempfile.TemporaryDirectory()
        self.directory, self.number, self.make, self.ordinary = self._scratch.name, number, make, []
        self.fds, self.calls, self.backend = 0, {}, None  # calls: {function: how many}
        os.chmod(self.directory, 0o755)

    def _live_without_a_fault(self, scene):
        daemon = self._daemon()
        try:
            if not daemon.start():
                raise Broken(f"it does not start: {daemon.log()}")
            scene(daemon)
            daemon.terminate()
            daemon.finish()
            daemon.check_exit([])
            if daemon.process.returncode != 0:
                raise Broken(f"it ended with {daemon.process.returncode}")
        finally:
            daemon.kill()
        self.ordinary += daemon.log().splitlines()
        return daemon.plan.calls()

    def measure(self):
        """Counts the fds and calls of a daemon without faults."""
        def serve(daemon):
            check_service(daemon)
            self.fds, self.backend = daemon.count_fds(), daemon.backend()
        self._live_without_a_fault(serve)
        self.calls = self._live_without_a_fault(lambda daemon: live(daemon, TIMEOUT))

    def _daemon(self):
        return self.make(self.directory, Plan(self.directory + "/plan"))

    def _go_through(self, daemon, injection):
        try:
            if daemon.start():
                live(daemon, SHORT if injection.for_ever else TIMEOUT)
        except GaveUp:
            pass
        if injection.for_ever and daemon.plan.failed() and not daemon.has_ended():
            check_rest(daemon)
        if daemon.has_ended():
            daemon.check_exit(self.ordinary)
            if daemon.process.returncode == 0:
                raise Broken("it ended too early")
        reached = daemon.plan.failed() > 0
        if reached:
            daemon.plan.lift()
        if reached and (not daemon.has_ended() or daemon.revive()):
            self._check_survivor(daemon, injection)
        if not daemon.has_ended():
            daemon.terminate()
        daemon.finish()

    def _check_survivor(self, daemon, injection):
        # Without eventfd a pipe is used, which has two fds.
        fds = self.fds + (injection.function == "eventfd")
        try:
            check_service(daemon)
            # Before Linux 6.16 a thread closes fds of clients. A daemon without its keeper has pages of its own.
            fds += PAGES_FDS if daemon.backend() != self.backend else 0
            if not until(lambda: daemon.count_fds() <= fds, TIMEOUT):
                raise Broken(f"{fds} fds before, {daemon.count_fds()} after it")
            # A permanent fault may force another backend.
            if not injection.for_ever and daemon.backend() != self.backend:
                raise Broken(f"it changed to the {daemon.backend()} backend")
        except (Broken, OSError):
            # It may just have been ending.
            if not daemon.has_ended(SHORT) or daemon.process.returncode == 0:
                raise

    def run(self, injection):
        """(whether the fault was reached, its place, the error or "")"""
        daemon = self._daemon()
        number = list(self.calls).index(injection.function)
        daemon.plan.fail(number, getattr(errno, injection.error), injection.n, FOR_EVER if injection.for_ever else injection.n)
        wrong = ""
        try:
            self._go_through(daemon, injection)
            daemon.check_exit(self.ordinary)
        except Broken as broken:
            wrong = str(broken)
        except Exception:  # pylint: disable=broad-except
            wrong = traceback.format_exc()
        finally:
            daemon.kill()
        if wrong:
            wrong += "\n" + "\n".join(daemon.log().splitlines()[-12:])
        return daemon.plan.failed() > 0, daemon.plan.where(), wrong

    def run_all(self, injections):
        """For each: (it, whether it was reached, its place, the error or "")"""
        for injection in injections:
            result = self.run(injection)
            # The order of calls varies.
            for _ in range(TRIES - 1):
                reached, _, wrong = result
                if not reached and not wrong and injection.n <= self.calls[injection.function]:
                    result = self.run(injection)
            yield (injection, *result)


def check_rest(daemon):
    """A failing call is not repeated without a pause."""
    before = sum(daemon.plan.calls().values())
    time.sleep(SHORT)
    calls = sum(daemon.plan.calls().values()) - before
    if calls > CALLS_AT_REST:
        raise Broken(f"it spins: {calls} calls in {SHORT} seconds")


class Tally:
    """The results."""

    def __init__(self):
        self.begun = self.reported = time.monotonic()
        self.reached, self.places, self.wrong, self.missed = collections.Counter(), collections.defaultdict(set), [], 0

    def add(self, injection, reached, where, wrong):
        if reached:
            self.reached[injection.function] += 1
            self.places[injection.function].add(where)
        else:
            self.missed += 1
        if wrong:
            self.wrong.append((injection, where, wrong))
            print(f"FAIL  {describe(injection)} (in {where})\n      " + wrong.replace("\n", "\n      "), flush=True)
        if time.monotonic() - self.reported > 30:
            self.reported = time.monotonic()
            print(f"      … {self.total()} so far, now at {describe(injection)}", flush=True)

    def total(self):
        return sum(self.reached.values())

    def failures(self):
        return "\n".join(f"{describe(injection)}: {wrong}" for injection, _, wrong in self.wrong)

    def summary(self):
        sites = sum(len(places) for places in self.places.values())
        rows = [f"{self.reached[function]:6} in {len(self.places[function]):3} places  {function}" for function in sorted(self.reached)]
        return "\n".join(rows + [f"{self.total()} calls failed in {sites} places of {len(rows)} functions, "
                                 f"in {time.monotonic() - self.begun:.0f} s: {len(self.wrong)} went wrong; {self.missed} were not made"])


def work(number, make, tasks, results):
    bench = Bench(number, make)
    bench.measure()
    for task in iter(tasks.get, None):
        for result in bench.run_all(task):
            results.put(result)
    results.put(None)


def sample_of(calls, functions, every):
    """Each `every`-th of all functions, ways to fail and calls, in a list of its own."""
    injections = [Injection(function, n, *kind) for function in calls if not functions or function in functions
                  for kind in kinds_of(function) for n in range(1, calls[function] + 1)]
    return [[injection] for injection in injections[::every]]


def sweep(todo, jobs, make=Daemon):
    tasks, results, tally = multiprocessing.Queue(), multiprocessing.Queue(), Tally()
    for task in todo + [None] * jobs:
        tasks.put(task)
    workers = [multiprocessing.Process(target=work, args=(number, make, tasks, results)) for number in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in workers:
        for result in iter(results.get, None):
            tally.add(*result)
    for worker in workers:
        worker.join()
    return tally


def sweep_sample(size, jobs, make=Daemon):
    """(the results of a sample of about that size, the size of the whole)"""
    bench = Bench(0, make)
    bench.measure()
    everything = len(sample_of(bench.calls, [], 1))
    tally = sweep(sample_of(bench.calls, [], max(1, everything // size)), jobs, make)
    print(tally.summary())
    return tally, everything


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--fail", choices=["alone", "daemon", "keeper"], default="alone")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("functions", nargs="*")
    options = parser.parse_args()
    make = Daemon if options.fail == "alone" else functools.partial(Pair, victim=options.fail)
    if make is not Daemon:
        options.jobs = 1  # there is one kernel
    bench = Bench(0, make)
    bench.measure()
    calls = bench.calls
    print(f"{sum(calls.values())} calls of {sum(n > 0 for n in calls.values())} functions in a life without faults", flush=True)
    todo = sample_of(calls, options.functions, options.every)
    tally = sweep(todo, options.jobs, make)
    print(tally.summary())
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
