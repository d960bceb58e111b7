#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A sample of what 'make faults' and 'make races' do: calls that fail, come late, and are interrupted.

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
from sweep import Injection, Some, sweep, sweep_sample  # noqa: E402

PROGRAMS = ("userevd", "userevd-keeper", "userevctl")
JOBS = 3 * (os.cpu_count() or 1)
SAMPLE, INTERRUPTED_EVERY, RACE_SECONDS = 50, 37, 3

# What the programs call and faults.c does not know. Another function is to come here, if there is nothing about it that can fail
# or be interrupted, or else to faults.c.
HARMLESS = """
# pure, or about the process's own memory
asprintf atexit dirname fnmatch free getauxval getenv getopt_long gmtime_r localtime_r mbrtowc memchr memcmp memcpy memmove memrchr memset
malloc_trim mempcpy munmap madvise newlocale open_memstream optarg opterr optind optopt qsort qsort_r secure_getenv setenv setlocale sigaddset sigemptyset
sigfillset snprintf strcasecmp strcasestr strncat strchr strchrnul strcmp strcspn strerror strftime strlen strncmp strnlen strpbrk strrchr strsep
regcomp regexec strsignal strspn strstr strtod strtof strtol strtoul strtoull vasprintf vsnprintf wcwidth environ unsetenv uselocale puts

# asks, and always gets an answer; of who is asked for a name there need not be one
clock_gettime dirfd fileno getegid geteuid getgid getgrgid getpgrp getpid getppid getpwuid gettid getuid isatty sched_yield sysconf
uname tcgetpgrp

# fails only where it is misused
posix_spawn_file_actions_destroy posix_spawnattr_destroy posix_spawnattr_init posix_spawnattr_setflags posix_spawnattr_setsigdefault
posix_spawnattr_setsigmask pthread_attr_destroy pthread_attr_init pthread_attr_setdetachstate pthread_attr_setstacksize
pthread_cond_broadcast pthread_cond_wait pthread_join pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock pthread_setcancelstate
pthread_sigmask raise sigaction signal sigprocmask tcgetattr tcsetattr umask

# nobody can do anything about it: the end of a file, words for people, pauses
_exit abort close closedir dprintf exit fclose ferror fflush fgets fprintf fputs fputc fwrite nanosleep pclose printf putc rewind setvbuf stderr stdout
stdin usleep vfprintf

# of what was opened before
fscanf sscanf

# libraries, whose own calls come by here
ev_ kbuffer_ sd_ tep_ tracefs_

# userevctl's, for private files and for names of its own, and to ask systemd
mkdtemp mkostemp popen rename

# the compiler's
__ _ITM_
""".split("\n")


def symbols(path, kind):
    """Without versions, and by the names that they have in the source."""
    text = subprocess.run(["nm", "-D", kind, path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


def plain(name):
    """As it is without the compiler's care: __read_chk() is read()."""
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


# What was found to go wrong, and does no more: (the sentence, [(function, errno, for ever, which calls)]).
FOUND = (
    ("who can't be let in at all is not tried again and again", [("accept4", "EPERM", True, (1, 2))]),
    ("where the kernel has no room for an fd among those that are waited for, nobody is forgotten",
     [("epoll_ctl", "ENOSPC", for_ever, range(1, 9)) for for_ever in (False, True)]),
    ("out of memory it ends with a word about it, also where libev is",
     [("realloc", "ENOMEM", True, (1, 2, 9)), ("malloc", "ENOMEM", True, (1, 5)), ("calloc", "ENOMEM", True, (1, 2, 3))]),
)


def check_found():
    for sentence, faults in FOUND:
        todo = [Some([Injection(function, n, error, for_ever)]) for function, error, for_ever, numbers in faults for n in numbers]
        check(sentence, sweep(todo, JOBS).what_went_wrong())


def check_keeper():
    """Started by whoever it was, and out of memory."""
    with tempfile.TemporaryDirectory() as directory:
        plan = Plan(directory + "/plan")
        # The functions' names are in there when a program has run.
        for _ in range(2):
            environment = plan.environment()
            # As systemd starts it; calls of the shell do not fail.
            environment["PRELOAD"] = environment.pop("LD_PRELOAD")
            done = subprocess.run(["sh", "-c", 'LD_PRELOAD=$PRELOAD LISTEN_PID=$$ LISTEN_FDS=1 exec "$0"', BUILD + "/userevd-keeper"],
                                  env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            plan.fail(list(plan.calls()).index("malloc"), errno.ENOMEM, 1, FOR_EVER)
    check("a keeper that is out of memory does not say that it was started by the wrong one",
          done.returncode != 1 or "can't take what it was handed: Cannot allocate memory" not in done.stdout)


def check_sample():
    tally, everything = sweep_sample(SAMPLE, JOBS)
    check(f"whichever call fails: a clean refusal, or a clean end ({tally.total()} of {everything})", tally.what_went_wrong())
    check("most of these calls were there to fail", tally.total() < SAMPLE // 2)


def check_race():
    lives, wrong = race(RACE_SECONDS, seed=1)
    check(f"calls that come late change nothing ({lives} programs and commands)", wrong)


def check_interrupts():
    n, wrong = interrupt_all(INTERRUPTED_EVERY, JOBS)
    check(f"userevctl may be interrupted at any time ({sum(n.values())} times)", "\n".join(wrong) or not n)


check("faults.c knows whatever is called and may fail; or else HARMLESS does", unknown_functions())
check_found()
check_keeper()
check_sample()
check_race()
check_interrupts()
sum_up()
