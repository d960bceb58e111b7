/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How fast are records where the kernel has no user_events, and what is lost when they come as fast as they can? A burst goes
 * to the daemon, to a pipe that somebody reads, to a journald, and into a buffer of lttng-ust.
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

enum { BURST = 50000, FEWER = 5000, READ_BYTES = 65536 };

struct payload {
	uint32_t turn;
	uint64_t cost;
} __attribute__((packed));

/* --- ours --- */

static struct broker broker;
static struct userev *userev;
static struct userev_event event;

static void open_ours(void)
{
	static char names[1][NAME_BYTES];

	broker.backend = "embedded";
	broker_start(&broker);
	userev = broker_open(&broker);
	make_names(names, 1);
	broker_register(userev, &event, names, 1);
	broker_switch(&broker, name_of(names[0]), true);
}

static void burst(unsigned n)
{
	struct payload payload = { .cost = 7 };

	for (payload.turn = 0; payload.turn < n; payload.turn++)
		userev_write(&event, &payload, sizeof(payload));
}

/* Waits until the daemon has taken all records. */
static struct wire_account account_at_rest(void)
{
	int fd = connect_to_broker(&broker);
	struct wire_account account = query_broker(fd), last;

	do {
		last = account;
		usleep(50000);
		account = query_broker(fd);
	} while (account.records != last.records);
	close(fd);
	return account;
}

static double burst_ours(double *ret_lost)
{
	uint64_t lost = userev_lost(userev).queue_full, taken = account_at_rest().records;
	double begin = now();

	burst(BURST);
	begin = (now() - begin) * 1e3 / BURST;
	lost = userev_lost(userev).queue_full - lost;
	taken = account_at_rest().records - taken;
	if (taken + lost != BURST)
		note("The loss was not counted: of %d records %llu were taken and %llu counted as lost", BURST,
		     (unsigned long long)taken, (unsigned long long)lost);
	*ret_lost = (double)lost * 100 / BURST;
	return begin;
}

/* So few that all find room, and then a pause, in which the daemon reads them. */
static double few_ours(void)
{
	enum { FEW = 16, TIMES = 100 };
	double took = 0;

	for (unsigned i = 0; i < TIMES; i++) {
		double begin = now();

		burst(FEW);
		took += now() - begin;
		usleep(500);
	}
	return took * 1e3 / (FEW * TIMES);
}

/* --- a pipe --- */

static int pipe_end;
static pid_t reader;

static void open_pipe(void)
{
	static char buffer[READ_BYTES];
	int ends[2];

	if (pipe(ends) < 0)
		fail("pipe");
	reader = fork();
	if (reader == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		while (read(ends[0], buffer, sizeof(buffer)) > 0)
			;
		_exit(EXIT_SUCCESS);
	}
	close(ends[0]);
	pipe_end = ends[1];
	fcntl(pipe_end, F_SETFL, O_NONBLOCK);
}

static unsigned write_pipe(unsigned n)
{
	struct payload payload = { .cost = 7 };
	uint32_t index = 1;
	const struct iovec record[] = { { &index, sizeof(index) }, { &payload, sizeof(payload) } };
	unsigned lost = 0;

	for (payload.turn = 0; payload.turn < n; payload.turn++)
		lost += writev(pipe_end, record, 2) < 0;
	return lost;
}

static double burst_pipe(double *ret_lost)
{
	double begin = now();

	*ret_lost = (double)write_pipe(BURST) * 100 / BURST;
	return (now() - begin) * 1e3 / BURST;
}

/* --- comparisons --- */

static void against_pipe(void)
{
	struct side ours = { .name = "embedded" }, theirs = { .name = "pipe" };
	struct side our_losses = { .name = "embedded" }, their_losses = { .name = "pipe" };
	unsigned rounds = pick(15, 5);
	double lost;

	open_pipe();
	for (unsigned i = 0; i < rounds; i++) {
		side_add(&ours, burst_ours(&lost));
		side_add(&our_losses, lost);
		side_add(&theirs, burst_pipe(&lost));
		side_add(&their_losses, lost);
	}
	report("50,000 records as fast as can be: each", "ns", &ours, &theirs, 0);
	report("... lost of them (and counted)", "%", &our_losses, &their_losses, 0);
	close(pipe_end);
	finish(reader, 0);
}

static void against_journal(void)
{
	struct side ours = { .name = "embedded" }, theirs = { .name = "journald" };
	unsigned rounds = pick(7, 3);
	const char *why;
	double lost;

	if (!rival_journal_start(&why)) {
		report_missing("50,000 records as fast as can be: each", "journald", why);
		return;
	}
	for (unsigned i = 0; i < rounds; i++) {
		double begin;

		side_add(&ours, burst_ours(&lost));
		begin = now();
		for (unsigned turn = 0; turn < FEWER; turn++)
			rival_journal_write(turn, 7);
		side_add(&theirs, (now() - begin) * 1e3 / FEWER);
	}
	report("50,000 records as fast as can be: each", "ns", &ours, &theirs, 0);
	rival_journal_stop();
}

static void against_lttng(void)
{
	struct side ours = { .name = "embedded" }, theirs = { .name = "lttng-ust" };
	unsigned rounds = pick(9, 5);

	if (!rival_lttng_start()) {
		report_missing("a record of an event that is on", "lttng-ust", "lttng-sessiond does not start here");
		return;
	}
	for (unsigned i = 0; i < rounds; i++) {
		double begin;

		side_add(&ours, few_ours());
		begin = now();
		rival_lttng(BURST);
		side_add(&theirs, (now() - begin) * 1e3 / BURST);
	}
	report("a record of an event that is on, embedded", "ns", &ours, &theirs, 0);
	rival_lttng_stop();
}

int main(void)
{
	open_ours();
	against_pipe();
	against_journal();
	against_lttng();
	userev_close(userev);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
