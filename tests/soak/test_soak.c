/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * test_soak [--seconds=N] [--seed=N]: honest and hostile programs come and go by chance, while policies change, tracing goes on
 * and off, and daemon and keeper are killed. Again and again all programs end: then nothing may be left of them, and nothing may
 * have become more. The same seed means the same dice for each process; which comes first is the machine's to say.
 *
 * Three legs, equally long: in the first daemon and keeper end at any moment, in the second the daemon, in the third nobody: only
 * of who lives on can be said that he does not grow.
 */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/pair.h"
#include "tests/integration/raw.h"
#include "tests/soak/figures.h"
#include "tests/soak/programs.h"

enum {
	PROGRAMS = 6,
	HOSTILE = 2,
	TENANTS = 3,
	USER = 12345,
	STEPS_MIN = 16, /* in a round */
	STEPS = 48,
	BUSY_MS_MAX = 3000, /* where they take long */
	PAUSE_US = 10000,   /* between them */
	RELOADS = 8,
	LEGS = 3,
	WARM_ROUNDS = 2, /* of each, for what a process takes once */
};

struct deeds *deeds;

static unsigned seconds = 120;
static uint64_t seed;

enum leg { BOTH_END, DAEMON_ENDS, NOBODY_ENDS };

struct run {
	struct pair pair;
	struct dice dice;
	enum leg leg;
	pid_t program[PROGRAMS];
	uint64_t started; /* so many programs, each of which has dice of its own */
	uint64_t begun;	  /* in milliseconds, as is all time here */
	uint64_t printed;
	uint64_t round;
	uint64_t events;   /* in the midst of this round */
	struct tally calm; /* after the first */
	char cgroup[TENANTS][128];
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* --- programs --- */

static _Noreturn void be_program(const struct run *run, unsigned i, struct dice dice)
{
	struct actor_as as = { .uid = USER + i % TENANTS };

	if (*run->cgroup[i % TENANTS])
		as.cgroup = run->cgroup[i % TENANTS];
	actor_become(&as);
	setenv("USEREV_SOCKET", run->pair.fixture.socket, 1);
	if (i < HOSTILE)
		live_hostilely(dice, run->pair.fixture.socket);
	live_honestly(dice);
}

static void start_program(struct run *run, unsigned i)
{
	struct dice dice = { seed + ++run->started };
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		be_program(run, i, dice);
	run->program[i] = pid;
	deeds->programs++;
}

/* As it may: by itself, or because it was killed. True: it has. */
static bool has_ended(struct run *run, unsigned i)
{
	int status;
	pid_t pid = run->program[i] ? waitpid(run->program[i], &status, WNOHANG) : 0;

	ck_assert_int_ge(pid, 0);
	if (pid > 0) {
		ck_assert_msg(
			(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) ||
				(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM)),
			"a program ended with status %#x", (unsigned)status);
		run->program[i] = 0;
	}
	return run->program[i] == 0;
}

static void keep_programs_alive(struct run *run)
{
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (has_ended(run, i))
			start_program(run, i);
}

static void end_programs(struct run *run)
{
	for (unsigned i = 0; i < PROGRAMS; i++)
		if (run->program[i])
			kill(run->program[i], any(&run->dice, 2) ? SIGTERM : SIGKILL);
	for (unsigned i = 0; i < PROGRAMS; i++)
		ck_assert_msg(eventually(has_ended(run, i)), "a program does not end");
}

static void make_cgroups(struct run *run)
{
	char name[32];

	for (unsigned i = 0; i < TENANTS && !why_no_cgroups(); i++) {
		snprintf(name, sizeof(name), "tenant%u.service", i);
		snprintf(run->cgroup[i], sizeof(run->cgroup[i]), "%s", make_cgroup(name));
	}
}

static void remove_cgroups(struct run *run)
{
	for (unsigned i = 0; i < TENANTS; i++)
		if (*run->cgroup[i])
			remove_cgroup(run->cgroup[i]);
}

/* --- what happens to them --- */

static const char *const policies[] = {
	"",
	"[Daemon]\nDefaultMaxEvents=8\n",
	"[Daemon]\nDefaultMaxConnections=3\n",
	"[/]\nMaxEvents=24\n",
	"[/**]\nMaxRequestsPerSecond=1000/100\n",
	"[/**]\nDenyEvents=soak_1*\n",
	"[/**]\nNamePrefix=prefixed_\n",
	"[/**]\nStream=client\nAllowMultiFormat=no\n",
	"[/**]\nKeepFor=1\n",
	"[Event soak_declared]\nFields=u32 x\n[Event soak_2]\nFields=u32 x; char[8] z\n",
};

static void take_loaded(void *data, struct cursor row)
{
	struct row_field loaded;

	if (row_find(row, "loaded", &loaded))
		*(bool *)data = loaded.number;
}

/* False: it has errors. */
static bool adopts_policy(const struct fixture *fixture, const char *policy)
{
	int control = raw_connect(fixture->control);
	bool loaded = false;

	fixture_write_policy(fixture, policy);
	ck_assert_uint_eq(raw_rows(control, KIND_RELOAD, 0, NULL, take_loaded, &loaded), 0);
	close(control);
	return loaded;
}

static void reload(struct run *run)
{
	for (unsigned n = 1 + any(&run->dice, RELOADS); n > 0; n--) {
		ck_assert(adopts_policy(&run->pair.fixture, policies[any(&run->dice, ARRAY_SIZE(policies))]));
		deeds->reloads++;
	}
}

/* With such a file a daemon would not start. */
static void reload_in_vain(struct run *run)
{
	ck_assert(!adopts_policy(&run->pair.fixture, "[Daemon]\nDefaultMaxEvents=many\n"));
	deeds->bad_reloads++;
	reload(run);
}

/* In the kernel all that there are, which may be none. */
static bool switch_in_kernel(const struct tracer *tracer, bool on)
{
	char path[160];
	int fd;
	bool switched;

	snprintf(path, sizeof(path), "%s/events/user_events/enable", tracer->directory);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	switched = fd >= 0 && write(fd, on ? "1" : "0", 1) == 1;
	ck_assert_msg(switched || errno == ENOENT || errno == ENODEV, "%s: %s", path, strerror(errno));
	fd_close(fd);
	return switched;
}

static void trace_all(struct run *run, bool on)
{
	struct fixture *fixture = &run->pair.fixture;

	if (keeps_records_itself(fixture))
		deeds->switches += trace(fixture, "*", on);
	else
		deeds->switches += switch_in_kernel(&fixture->tracer, on);
}

static void switch_tracing(struct run *run)
{
	trace_all(run, any(&run->dice, 3) > 0);
}

static void kill_program(struct run *run)
{
	unsigned i = any(&run->dice, PROGRAMS);

	if (!run->program[i])
		return;
	kill(run->program[i], SIGKILL);
	deeds->killed++;
}

static int any_end(struct run *run)
{
	static const int signals[] = { SIGKILL, SIGTERM };

	return signals[any(&run->dice, ARRAY_SIZE(signals))];
}

static void restart_daemon(struct run *run)
{
	if (run->leg == NOBODY_ENDS)
		return;
	pair_end_daemon(&run->pair, any_end(run));
	usleep(any(&run->dice, PAUSE_US));
	pair_start_daemon(&run->pair);
	pair_wait(&run->pair);
	deeds->daemons++;
}

static void restart_keeper(struct run *run)
{
	if (run->leg != BOTH_END || !run->pair.keeper)
		return;
	pair_end_keeper(&run->pair, any_end(run));
	usleep(any(&run->dice, PAUSE_US));
	pair_start_keeper(&run->pair);
	run->pair.fixture.keeper = run->pair.keeper;
	pair_wait(&run->pair);
	deeds->keepers++;
}

static void let_happen(struct run *run)
{
	unsigned what = any(&run->dice, 32);

	if (what < 11)
		reload(run);
	else if (what < 13)
		reload_in_vain(run);
	else if (what < 21)
		switch_tracing(run);
	else if (what < 28)
		kill_program(run);
	else if (what < 31)
		restart_daemon(run);
	else
		restart_keeper(run);
}

static void be_busy(struct run *run)
{
	uint64_t end = now() + BUSY_MS_MAX;

	make_cgroups(run);
	for (unsigned n = STEPS_MIN + any(&run->dice, STEPS); n > 0 && now() < end; n--) {
		keep_programs_alive(run);
		let_happen(run);
		usleep(any(&run->dice, PAUSE_US));
	}
	run->events = status_number(&run->pair.fixture, "events");
	end_programs(run);
	remove_cgroups(run);
}

/* --- and what is left of them --- */

/* The policy that it began with, nobody traces, and then as many of everything as after the first round. */
static void become_calm(struct run *run)
{
	struct fixture *fixture = &run->pair.fixture;
	char difference[256] = "", event[640];

	trace_all(run, false);
	ck_assert(adopts_policy(fixture, ""));
	if (run->round == 0) {
		ck_assert(eventually(status_number(fixture, "charges") == 0));
		ck_assert(eventually(status_number(fixture, "connections") == 0));
		tally_take_at_rest(fixture, &run->calm);
	} else if (!tally_settles(fixture, &run->calm, difference, sizeof(difference))) {
		fixture_print_log(fixture);
		ck_abort_msg("round %" PRIu64 " has left something behind: %s", run->round, difference);
	}
	ck_assert_uint_eq(run->calm.charges, 0);
	ck_assert_uint_eq(run->calm.connections, 0);
	/* Before Linux 6.4 the kernel keeps what a killed keeper can't delete any more. */
	if (fixture->backend == BACKEND_ENABLE_ADDRESS &&
	    !eventually(!find_new_event(fixture->events_before, event, sizeof(event))))
		ck_abort_msg("round %" PRIu64 " has left %s in the kernel", run->round, event);
}

static void look(struct run *run, struct series *series)
{
	uint64_t time = now() - run->begun, interval = seconds < 300 ? 10000 : 60000;
	struct figures figures;

	figures_take(&run->pair, &run->calm, &figures);
	figures.seconds = time / 1000;
	figures.round = run->round;
	figures.events = run->events;
	series_add(series, &figures);
	if (run->printed == 0 || time / interval >= run->printed) {
		figures_print(&figures);
		run->printed = time / interval + 1;
	}
}

/* The log is for whoever looks for what has gone wrong, and that was in this round. */
static void play_round(struct run *run, struct series *series)
{
	be_busy(run);
	become_calm(run);
	look(run, series);
	ck_assert_int_eq(truncate(run->pair.fixture.log, 0), 0);
	run->round++;
}

static void play_leg(struct run *run, enum leg leg)
{
	uint64_t end = run->begun + seconds * 1000ULL / LEGS * (leg + 1);
	struct series warm = { 0 }, series = { 0 };

	run->leg = leg;
	while (warm.n < WARM_ROUNDS)
		play_round(run, &warm);
	while (now() < end || series.n < SERIES_MIN)
		play_round(run, &series);
	if (leg != BOTH_END)
		series_expect_no_growth(&series, leg == NOBODY_ENDS, run->pair.keeper);
	series_deinit(&warm);
	series_deinit(&series);
}

static void print_deeds(const struct run *run)
{
	printf("%" PRIu64 " programs (%" PRIu64 " killed, %" PRIu64 " forks) in %" PRIu64 " rounds: %" PRIu64
	       " registrations, %" PRIu64 " refusals, %" PRIu64 " releases, %" PRIu64 " records\n",
	       deeds->programs, deeds->killed, deeds->forks, run->round, deeds->registered, deeds->refused,
	       deeds->released, deeds->records);
	printf("%" PRIu64 " hostile connections with %" PRIu64 " packets; %" PRIu64 " reloads and %" PRIu64
	       " that are refused; tracing switched %" PRIu64 " times; %" PRIu64 " daemons and %" PRIu64
	       " keepers ended\n",
	       deeds->hostile_connections, deeds->hostile_packets, deeds->reloads, deeds->bad_reloads, deeds->switches,
	       deeds->daemons, deeds->keepers);
}

static void start(struct run *run)
{
	if (access(TRACEFS "/user_events_status", R_OK) == 0)
		ck_assert(pair_start(&run->pair, "--guard=prefer"));
	else
		pair_start_embedded(&run->pair);
	run->pair.fixture.keeper = run->pair.keeper;
	/* So that it has an instance. */
	if (!keeps_records_itself(&run->pair.fixture))
		trace(&run->pair.fixture, "", false);
	run->begun = now();
}

static const char *what_runs(const struct fixture *fixture)
{
	if (keeps_records_itself(fixture))
		return "the daemon alone";
	return fixture->guarded ? "daemon and keeper, guarded" : "daemon and keeper, no guard";
}

TEST(soak_leaves_nothing_and_nothing_grows)
{
	static struct run run;

	if (geteuid() != 0) {
		printf("only root may look into a daemon that somebody supervises\n");
		return;
	}
	/* Else a program that is told to end before it listens to that would, with check's handler, end all of us. */
	signal(SIGTERM, SIG_DFL);
	run.dice.state = seed;
	start(&run);
	printf("seed %" PRIu64 ", %u seconds, %s\n", seed, seconds, what_runs(&run.pair.fixture));
	figures_print_head();
	for (unsigned leg = 0; leg < LEGS; leg++)
		play_leg(&run, leg);
	print_deeds(&run);
	pair_stop(&run.pair);
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = { { "seconds", required_argument, NULL, 's' },
						 { "seed", required_argument, NULL, 'd' },
						 { 0 } };
	int c;

	seed = (uint64_t)time(NULL) << 16;
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 's')
			seconds = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'd')
			seed = strtoull(optarg, NULL, 10);
		else
			exit(2);
	}
}

/* check ends a test that takes long; on a busy machine all takes longer. */
static void allow_time(void)
{
	char multiplier[16];

	snprintf(multiplier, sizeof(multiplier), "%u", 2 + seconds / 100);
	setenv("CK_TIMEOUT_MULTIPLIER", multiplier, 0);
}

int main(int argc, char **argv)
{
	read_options(argc, argv);
	allow_time();
	deeds = mmap(NULL, sizeof(*deeds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (deeds == MAP_FAILED)
		return EXIT_FAILURE;
	return run_tests_in_cgroups();
}
