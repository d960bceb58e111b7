#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A sample of 'make faults' and 'make races': calls that fail, are delayed, and are interrupted.

import errno
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BUILD, check, sum_up  # noqa: E402
from interrupts import interrupt_all  # noqa: E402
from plan import FOR_EVER, LIBRARY, Plan  # noqa: E402
from races import race  # noqa: E402
from sweep import Injection, sweep, sweep_sample  # noqa: E402

PROGRAMS = ("userevd", "userevd-keeper", "userevctl")
JOBS = 3 * (os.cpu_count() or 1)
SAMPLE, INTERRUPTED_EVERY, RACE_SECONDS = 50, 37, 3

# Functions that the programs call and faults.c does not know. A new function belongs here if it can neither fail nor be interrupted,
# otherwise in faults.c.
HARMLESS = """
# pure, or about the process's own memory
asprintf atexit clearerr dirname fnmatch free getauxval getenv getopt_long gmtime_r inet_ntop localtime_r mbrtowc memchr memcmp memcpy memmove memrchr memset
malloc_trim mbtowc mempcpy mktime mprotect munmap madvise newlocale open_memstream optarg opterr optind optopt qsort qsort_r secure_getenv setenv setlocale sigaddset sigemptyset
sigfillset snprintf stpcpy strcasecmp strcasestr strncat strchr strchrnul strcmp strcpy strcspn strerror strftime strlen strncmp strnlen strpbrk strrchr strsep
regcomp regexec strsignal strptime strspn strstr strtod strtof strtol strtoul strtoull strerrorname_np vasprintf vsnprintf wcwidth environ unsetenv uselocale puts

# always succeeds, or has no result for an unknown name
alarm clock_gettime dirfd fileno getegid geteuid getgid getgrgid getpgrp getpid getppid getpwuid gettid getuid isatty sched_yield sysconf
uname tcgetpgrp time

# fails only if it is misused
dlsym posix_spawn_file_actions_destroy posix_spawnattr_destroy posix_spawnattr_init posix_spawnattr_setflags
posix_spawnattr_setsigdefault posix_spawnattr_setsigmask pthread_attr_destroy pthread_attr_init pthread_attr_setdetachstate pthread_attr_setstacksize
pthread_cond_broadcast pthread_cond_wait pthread_join pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock pthread_setcancelstate
pthread_sigmask raise setitimer sigaction signal sigprocmask tcgetattr tcsetattr umask

# without a useful reaction: the end of a file, output for people, pauses
_exit abort close closedir dprintf exit fclose ferror fflush fgets fprintf fputs fputc fwrite getc nanosleep pclose printf putc rewind setvbuf stderr stdout
stdin usleep vfprintf

# on an open file
fscanf sscanf

# libraries, whose own calls are in this list
ev_ sd_ tep_ trace_seq_ tracefs_ ZSTD_

# userevctl's private files, and its queries to systemd
mkdtemp mkostemp popen rename execvp fts_

# userevctl's attributes of cgroups, whose failures are in test_naming.c
listxattr removexattr setxattr

# the compiler's
__ _ITM_
""".split("\n")


def symbols(path, kind):
    """The names without versions."""
    text = subprocess.run(["nm", "-D", kind, path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


def plain(name):
    """The name in the source: __read_chk() is read()."""
    for prefix, suffix in (("__isoc99_", ""), ("__isoc23_", ""), ("__", "_chk")):
        if name.startswith(prefix) and name.endswith(suffix):
            return name[len(prefix):len(name) - len(suffix)]
    return name


def is_harmless(name):
    known = " ".join(line for line in HARMLESS if not line.startswith("#")).split()
    return any(plain(name) == one or (one.endswith("_") and name.startswith(one) and plain(name) == name) for one in known)


def unknown_functions():
    faultable = symbols(LIBRARY, "--defined-only")
    called = set().union(*(symbols(os.path.join(BUILD, program), "--undefined-only") for program in PROGRAMS))
    return sorted(name for name in called - faultable if not is_harmless(name))


# Faults that were found and corrected: (sentence, [(function, errno, for ever, calls)]).
FOUND = (
    ("a connection that can't be accepted is not retried without a pause", [("accept4", "EPERM", True, (1, 2))]),
    ("without room in the epoll every client is served",
     [("epoll_ctl", "ENOSPC", for_ever, range(1, 9)) for for_ever in (False, True)]),
    ("out of memory the daemon, and libev in it, end with a message",
     [("realloc", "ENOMEM", True, (1, 2, 9)), ("malloc", "ENOMEM", True, (1, 5)), ("calloc", "ENOMEM", True, (1, 2, 3))]),
)


def check_found():
    for sentence, faults in FOUND:
        todo = [[Injection(function, n, error, for_ever)] for function, error, for_ever, numbers in faults for n in numbers]
        check(sentence, sweep(todo, JOBS).failures())


def check_keeper():
    """Out of memory, at the check of its starter."""
    with tempfile.TemporaryDirectory() as directory:
        plan = Plan(directory + "/plan")
        # The plan has the functions' names after the first run.
        for _ in range(2):
            environment = plan.environment()
            # Started as by systemd; calls of the shell do not fail.
            environment["PRELOAD"] = environment.pop("LD_PRELOAD")
            done = subprocess.run(["sh", "-c", 'LD_PRELOAD=$PRELOAD LISTEN_PID=$$ LISTEN_FDS=1 exec "$0"', BUILD + "/userevd-keeper"],
                                  env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            plan.fail(list(plan.calls()).index("malloc"), errno.ENOMEM, 1, FOR_EVER)
    check("a keeper without memory reports that, not a wrong starter",
          done.returncode != 1 or "can't take what it was handed: Cannot allocate memory" not in done.stdout)


def check_sample():
    tally, everything = sweep_sample(SAMPLE, JOBS)
    check(f"a failed call leads to a refusal or a clean end ({tally.total()} of {everything})", tally.failures())
    check("most of these calls were reached", tally.total() < SAMPLE // 2)


def check_race():
    lives, wrong = race(RACE_SECONDS, seed=1)
    check(f"delayed calls change no result ({lives} programs and commands)", wrong)


def check_interrupts():
    n, wrong = interrupt_all(INTERRUPTED_EVERY, JOBS)
    check(f"userevctl can be interrupted at any call ({sum(n.values())} times)", "\n".join(wrong) or not n)


check("each function that is called is in faults.c or in HARMLESS", unknown_functions())
check_found()
check_keeper()
check_sample()
check_race()
check_interrupts()
sum_up()
