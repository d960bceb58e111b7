/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * test_soak [--seconds=N] [--seed=N]: honest and hostile programs come and go at random, while policies change, tracing goes on
 * and off, and daemon and keeper are killed. After each round all programs end: then nothing of them may be left, and nothing may
 * have grown. With the same seed each process gets the same random numbers; their order is the machine's.
 *
 * The run has three legs of equal length: in the first daemon and keeper are ended, in the second the daemon, in the third neither.
 * A process has to live for a leg, for the test to see that it doesn't grow.
 */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/kernel_events.h"
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
	WARM_ROUNDS = 2, /* of each, for memory that a process takes once */
};

_Atomic uint64_t *deeds;

static const char *const deed_names[DEEDS] = {
	[PROGRAMS_STARTED] = "programs",
	[PROGRAMS_KILLED] = "of them killed",
	[FORKED] = "forks",
	[REGISTERED] = "registrations",
	[REFUSED] = "refusals",
	[RELEASED] = "releases",
	[RECORDS_WRITTEN] = "records",
	[HOSTILE_CONNECTIONS] = "hostile connections",
	[HOSTILE_PACKETS] = "hostile packets",
	[RELOADED] = "reloads",
	[RELOADS_REFUSED] = "refused reloads",
	[TRACING_SWITCHED] = "times tracing switched",
	[TENANTS_SILENCED] = "times a tenant muted or blocked, or that ended",
	[DAEMONS_ENDED] = "daemons ended",
	[KEEPERS_ENDED] = "keepers ended",
};

static unsigned seconds = 60;
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
	return clock_us() / 1000;
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

static void add_program(struct run *run, unsigned i)
{
	struct dice dice = { seed + ++run->started };
	pid_t pid = start_process();

	if (pid == 0)
		be_program(run, i, dice);
	run->program[i] = pid;
	deeds[PROGRAMS_STARTED]++;
}

/* By itself, or because it was killed. */
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
			add_program(run, i);
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

/* --- events --- */

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
	"[/**]\nOwnTracing=yes\n",
	"[/**]\nOwnTracing=yes\nMaxTraceBytes=64K\n",
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
	bool loaded = false;

	fixture_write_policy(fixture, policy);
	ask_rows(fixture, KIND_RELOAD, take_loaded, &loaded);
	return loaded;
}

static void reload(struct run *run)
{
	for (unsigned n = 1 + any(&run->dice, RELOADS); n > 0; n--) {
		ck_assert(adopts_policy(&run->pair.fixture, policies[any(&run->dice, ARRAY_SIZE(policies))]));
		deeds[RELOADED]++;
	}
}

/* A daemon would not start with such a file. */
static void reload_in_vain(struct run *run)
{
	ck_assert(!adopts_policy(&run->pair.fixture, "[Daemon]\nDefaultMaxEvents=many\n"));
	deeds[RELOADS_REFUSED]++;
	reload(run);
}

/* All events in the kernel, which may have none. */
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
		deeds[TRACING_SWITCHED] += trace(fixture, "*", on);
	else
		deeds[TRACING_SWITCHED] += switch_in_kernel(&fixture->tracer, on);
}

static void switch_tracing(struct run *run)
{
	trace_all(run, any(&run->dice, 3) > 0);
}

/* Of a cgroup, also if no program is in it. Before Linux 6.4 a mute is refused, and clients of a blocked tenant are on each kernel. */
static void silence(const struct run *run, uint16_t asked, unsigned tenant)
{
	const char *path = *run->cgroup[tenant] ? cgroup_path(run->cgroup[tenant]) : "/";
	_cleanup_(fd_closep) int control = raw_connect(run->pair.fixture.control);
	struct raw_reply reply;

	raw_strings(KIND_SILENCE, asked, &path, 1, 0);
	ck_assert_int_eq(raw_send(control), 0);
	raw_receive(control, &reply);
	ck_assert(reply.size > 0);
	deeds[TENANTS_SILENCED] += reply.message.kind == KIND_ROWS;
	raw_reply_deinit(&reply);
}

static void silence_any(struct run *run)
{
	static const uint16_t asked[] = { ASK_MUTE, ASK_BLOCK, ASK_UNMUTE, ASK_UNBLOCK, ASK_UNMUTE, ASK_UNBLOCK };

	silence(run, asked[any(&run->dice, ARRAY_SIZE(asked))], any(&run->dice, TENANTS));
}

static void silence_none(const struct run *run)
{
	for (unsigned i = 0; i < TENANTS; i++) {
		silence(run, ASK_UNMUTE, i);
		silence(run, ASK_UNBLOCK, i);
	}
}

static void kill_program(struct run *run)
{
	unsigned i = any(&run->dice, PROGRAMS);

	if (!run->program[i])
		return;
	kill(run->program[i], SIGKILL);
	deeds[PROGRAMS_KILLED]++;
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
	deeds[DAEMONS_ENDED]++;
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
	deeds[KEEPERS_ENDED]++;
}

static void let_happen(struct run *run)
{
	static const struct {
		unsigned below; /* of 32 */
		void (*happen)(struct run *);
	} things[] = {
		{ 9, reload },	      { 11, reload_in_vain }, { 17, switch_tracing }, { 21, silence_any },
		{ 28, kill_program }, { 31, restart_daemon }, { 32, restart_keeper },
	};
	unsigned number = any(&run->dice, 32), i = 0;

	while (number >= things[i].below)
		i++;
	things[i].happen(run);
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
	silence_none(run);
	end_programs(run);
	remove_cgroups(run);
}

/* --- after a round --- */

/* With the first policy, and without tracing, there has to be as much of everything as after the first round. */
static void become_calm(struct run *run)
{
	struct fixture *fixture = &run->pair.fixture;
	char difference[256] = "", event[640];

	trace_all(run, false);
	ck_assert(adopts_policy(fixture, ""));
	if (run->round == 0) {
		await_status(fixture, "charges=0 connections=0");
		tally_take_at_rest(fixture, &run->calm);
	} else if (!tally_settles(fixture, &run->calm, difference, sizeof(difference))) {
		fixture_print_log(fixture);
		ck_abort_msg("round %" PRIu64 " has left something behind: %s", run->round, difference);
	}
	ck_assert_uint_eq(run->calm.charges, 0);
	ck_assert_uint_eq(run->calm.connections, 0);
	/* Before Linux 6.4 the kernel keeps events of a killed keeper. */
	if (fixture->backend == BACKEND_ENABLE_ADDRESS &&
	    !eventually(!find_new_event(fixture->events_before, event, sizeof(event))))
		ck_abort_msg("round %" PRIu64 " has left %s in the kernel", run->round, event);
}

static void look(struct run *run, struct series *series)
{
	uint64_t time = now() - run->begun, interval = seconds < 300 ? 10000 : 60000;
	struct figures figures;

	figures_take(&run->pair, &run->calm, &figures);
	figures.number[SECONDS] = time / 1000;
	figures.number[ROUNDS] = run->round;
	figures.number[EVENTS] = run->events;
	series_add(series, &figures);
	if (run->printed == 0 || time / interval >= run->printed) {
		figures_print(&figures);
		run->printed = time / interval + 1;
	}
}

/* If the next round fails, the log shows that round alone. */
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
	printf("%" PRIu64 " rounds", run->round);
	for (size_t i = 0; i < DEEDS; i++)
		printf(", %" PRIu64 " %s", deeds[i], deed_names[i]);
	printf("\n");
}

static void start(struct run *run)
{
	if (access(TRACEFS "/user_events_status", R_OK) == 0)
		ck_assert(pair_start(&run->pair, "--guard=prefer"));
	else
		pair_start_embedded(&run->pair);
	run->pair.fixture.keeper = run->pair.keeper;
	/* Makes the tracing instance. */
	if (!keeps_records_itself(&run->pair.fixture))
		trace(&run->pair.fixture, "", false);
	run->begun = now();
}

static const char *describe(const struct fixture *fixture)
{
	if (keeps_records_itself(fixture))
		return "the daemon alone";
	return fixture->guarded ? "daemon and keeper, guarded" : "daemon and keeper, no guard";
}

TEST(soak_leaves_nothing_and_nothing_grows)
{
	static struct run run;

	if (!need_root("a look into the fds of a daemon that is started as systemd starts it"))
		return;
	/* A program that gets it early would otherwise run check's handler, which kills the whole process group. */
	signal(SIGTERM, SIG_DFL);
	deeds = share_memory(DEEDS * sizeof(*deeds));
	run.dice.state = seed;
	start(&run);
	printf("seed %" PRIu64 ", %u seconds, %s\n", seed, seconds, describe(&run.pair.fixture));
	figures_print(NULL);
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

/* So that check doesn't end the test, also on a busy machine. */
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
	return run_tests_in_cgroups();
}
