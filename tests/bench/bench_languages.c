/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does an event cost in each language, while it is off and while it is on? Beside C, by the drivers of the conformance suite, with the
 * embedded backend.
 */

#include "tests/bench/bench.h"

/* So few records that all find room, and then a pause in which the daemon reads them. */
enum { RECORDS = 16, BURSTS = 100, ARGUMENTS_MAX = 8 };

struct language {
	const char *name;
	const char *command[ARGUMENTS_MAX]; /* what begins with a slash is below the build */
	unsigned long turns;
	FILE *in, *out;
	struct side off, on;
};

static struct language languages[] = {
	{ .name = "C", .command = { "/tests/driver" }, .turns = 10000000 },
	{ .name = "Go", .command = { "/tests/driver_go" }, .turns = 10000000 },
	{ .name = "Java",
	  .command = { "java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", "/tests/driver_java.jar", "Driver" },
	  .turns = 10000000 },
	{ .name = "Node", .command = { "node", "tests/conformance/driver.js" }, .turns = 10000000 },
	{ .name = "Rust", .command = { "/tests/driver_rust" }, .turns = 10000000 },
	{ .name = "Python", .command = { "python3", "tests/conformance/driver.py" }, .turns = 300000 },
};
static struct broker broker = { .backend = "embedded" };

static void find_built(const char **word)
{
	if (**word == '/' && !(*word = strdup(built(*word + 1))))
		fail("strdup");
}

static void run_driver(struct language *language)
{
	int in[2], out[2];

	find_built(&language->command[0]);
	for (unsigned i = 1; i < ARGUMENTS_MAX && language->command[i]; i++)
		find_built(&language->command[i]);
	if (pipe(in) < 0 || pipe(out) < 0)
		fail("pipe");
	if (fork() == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		close(out[0]);
		setenv("USEREV_SOCKET", broker.socket, 1);
		setenv("PYTHONPATH", "client/python", 1);
		setenv("NODE_PATH", built("node/modules"), 1);
		execvp(language->command[0], (char *const *)(uintptr_t)language->command);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	language->in = fdopen(in[1], "w");
	language->out = fdopen(out[0], "r");
}

/* The driver's reply to a command. */
static const char *reply_to(struct language *language, const char *command, const char *name, const char *rest)
{
	static char reply[4096];

	fprintf(language->in, "%s\t%s%s\n", command, name, rest);
	fflush(language->in);
	if (!fgets(reply, sizeof(reply), language->out))
		fail(language->name);
	reply[strcspn(reply, "\n")] = '\0';
	return reply;
}

/* Nanoseconds of a turn. */
static double measure(struct language *language, const char *name, unsigned long turns)
{
	char rest[32];

	snprintf(rest, sizeof(rest), "\t%lu", turns);
	return strtod(reply_to(language, "measure", name, rest), NULL) / (double)turns;
}

static void prepare(struct language *language)
{
	run_driver(language);
	if (strcmp(reply_to(language, "register", "languages_off", " u32 status; u64 turn; __rel_loc char[] path"),
		   "ok") != 0 ||
	    strcmp(reply_to(language, "register", "languages_on", " u32 status; u64 turn; __rel_loc char[] path"),
		   "ok") != 0)
		fail(language->name);
	broker_switch(&broker, "languages_on", true);
	if (strcmp(reply_to(language, "await", "languages_on", "\tyes"), "yes") != 0)
		fail(language->name);
	/* Compilers of running programs have seen both branches then. */
	for (unsigned i = 0; i < BURSTS; i++) {
		measure(language, "languages_on", RECORDS);
		usleep(500);
	}
	measure(language, "languages_off", language->turns);
}

static void measure_round(struct language *language)
{
	double on = 0;

	side_add(&language->off, measure(language, "languages_off", language->turns));
	for (unsigned i = 0; i < BURSTS; i++) {
		on += measure(language, "languages_on", RECORDS);
		usleep(500);
	}
	side_add(&language->on, on / BURSTS);
}

int main(void)
{
	unsigned rounds = pick(9, 3);

	broker_start(&broker);
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		languages[i].off.name = languages[i].on.name = languages[i].name;
		prepare(&languages[i]);
	}
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
			measure_round(&languages[i]);
	for (size_t i = 1; i < ARRAY_SIZE(languages); i++)
		report("test of an event that is off, in each language", "ns", &languages[i].off, &languages[0].off, 0);
	for (size_t i = 1; i < ARRAY_SIZE(languages); i++)
		report("a record of an event that is on, in each language", "ns", &languages[i].on, &languages[0].on,
		       0);
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		fclose(languages[i].in);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
