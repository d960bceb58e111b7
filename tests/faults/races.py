#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# races.py [SECONDS [SEED]]: programs connect and disconnect, and an admin sends requests, while half of the daemon's calls of the C
# library are delayed at random. No call fails, so each request has its normal result.

import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import TIMEOUT  # noqa: E402
from plan import Plan  # noqa: E402
from scenario import Broken, Client, Daemon, check_service  # noqa: E402

PROGRAMS = 3
DELAY_MAX = 400  # microseconds


def expect(sentence, holds):
    if not holds:
        raise Broken(sentence)


def live_once(daemon, name, chance):
    """A program that stays for a while, or disconnects at once."""
    client = Client(daemon, name, TIMEOUT)
    expect("it can connect", client.socket)
    if chance.random() < 0.1:
        client.close()
        return
    expect(f"HELLO is answered: {client.heard}", client.hello())
    names = [f"{name}_{i}" for i in chance.sample(range(4), chance.randint(1, 3))]
    granted = client.register(*(one + " u32 a" for one in names))
    expect(f"the events are granted: {granted}", granted == [None] * len(names))
    for one in names:
        client.write(one, 1)
    if chance.random() < 0.5:
        client.release(chance.choice(names))
    # Sometimes in the middle of a request.
    if chance.random() < 0.3:
        client.register_and_leave(names[0] + " u32 a")
    client.close()


def be_refused(daemon, name):
    """As another tenant, whose events must not count in the next life."""
    client = Client(daemon, name + "-greedy", TIMEOUT)
    expect(f"HELLO is answered: {client.heard}", client.hello())
    expect("a wrong description is refused", client.register("1bad", *(f"more{i} u32 a" for i in range(6)))[0])
    client.close()


def program(daemon, name, seed, end, results):
    chance, lives = random.Random(seed), 0
    try:
        while time.monotonic() < end:
            live_once(daemon, name, chance)
            if chance.random() < 0.2:
                be_refused(daemon, name)
            lives += 1
        results.put((name, lives, ""))
    except Exception:  # pylint: disable=broad-except
        results.put((name, lives, traceback.format_exc()))


def admin(daemon, seed, end, results):
    chance, lives = random.Random(seed), 0
    commands = (["events"], ["tenants"], ["status"], ["enable", "one_1"], ["disable", "one_1"], ["metrics"], ["reload"])
    try:
        while time.monotonic() < end:
            command = chance.choice(commands)
            status, output = daemon.ctl(*command)
            # The event may not exist now.
            expect(f"{command} ended with {status}: {output}", status == 0 or command[0] in ("enable", "disable"))
            lives += 1
        results.put(("admin", lives, ""))
    except Exception:  # pylint: disable=broad-except
        results.put(("admin", lives, traceback.format_exc()))


def race(seconds, seed, make=Daemon):
    """(number of lives, errors)"""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        plan = Plan(directory + "/plan")
        daemon = make(directory, plan)
        plan.delay(DELAY_MAX, seed)
        try:
            expect("it starts", daemon.start())
            lives, wrong = run_all(daemon, seconds, seed)
            check_service(daemon)
            daemon.terminate()
            daemon.check_exit([])
            expect(f"it ended with {daemon.process.returncode}", daemon.process.returncode == 0)
        except Broken as broken:
            lives, wrong = 0, [str(broken)]
        finally:
            daemon.kill()
        return lives, "\n".join(wrong + daemon.log().splitlines()[-10:]) if wrong else ""


def run_all(daemon, seconds, seed):
    results, end = multiprocessing.Queue(), time.monotonic() + seconds
    names = ["one", "another", "third", "fourth"][:PROGRAMS]
    processes = [multiprocessing.Process(target=program, args=(daemon, name, seed + i, end, results)) for i, name in enumerate(names)]
    processes.append(multiprocessing.Process(target=admin, args=(daemon, seed, end, results)))
    for process in processes:
        process.start()
    ended = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(lives for _, lives, _ in ended), [f"{name}: {wrong}" for name, _, wrong in ended if wrong]


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2 ** 31)
    print(f"for {seconds:.0f} s, with the seed {seed}", flush=True)
    lives, wrong = race(seconds, seed)
    print(f"{wrong}\n{lives} programs and commands, {'with' if wrong else 'without'} errors")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
