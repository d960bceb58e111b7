/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * restart_load life SOCKET: one program that registers, releases and queries, and exits with 0 if all answers are correct. It may
 * connect again until its connection is old enough that the daemon has deposited it, and not later.
 *
 * restart_load CLIENTS FILE: that many programs which register, release and write all the time while daemon and keeper are killed. A
 * closed connection or a missing answer is printed and ends the program. At SIGTERM it writes a line for each program to FILE: the
 * event's name, the number of records, and their sum.
 */

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"

enum {
	PAUSE_US = 40000,
	YOUNG_US = 500000, /* until its connection has certainly been deposited */
	EVENTS = 3,	   /* of each program, registered and released in turn */
	RECORDS = 3,
};

/* Shared with the parent. */
struct account {
	unsigned written;
	uint64_t sum;
	unsigned registered;
	_Atomic bool ended;
};

static _Atomic bool ends;

static void on_signal(int signal _unused_)
{
	ends = true;
}

static uint32_t register_event(int socket, const char *description)
{
	struct answer answer;

	ck_assert_uint_eq(raw_register(socket, description, &answer, NULL), 0);
	return answer.bit;
}

static _Noreturn void run(unsigned number, struct account *account)
{
	static const struct fixture service = { .socket = "/run/userevd.sock" };
	struct member member;
	char description[64];

	snprintf(description, sizeof(description), "load_%u u32 x", number);
	member = member_new(&service, description);
	for (uint32_t x = 1; !ends; x++) {
		uint32_t bit;

		snprintf(description, sizeof(description), "load_%u_%u u32 x", number, x % EVENTS);
		bit = register_event(member.socket, description);
		account->registered++;
		for (unsigned i = 0; i < RECORDS && member_is_on(&member, 0); i++)
			member_emit(&member, 0, x);
		ck_assert_uint_eq(raw_release(member.socket, &bit, 1), 1);
		usleep(PAUSE_US);
	}
	account->written = member.event[0].written;
	account->sum = member.event[0].sum;
	account->ended = true;
	/* Keeps its events until all programs have ended. */
	for (;;)
		pause();
}

/* False: the connection has ended. */
static bool ask_young(int socket, uint16_t kind, struct raw_reply *ret)
{
	int r = raw_send(socket);

	ck_assert_msg(r == 0 || r == -EPIPE || r == -ECONNRESET, "%s", strerror(-r));
	if (r < 0)
		return false;
	raw_receive_answer(socket, ret);
	ck_assert_msg(ret->size >= 0 || ret->size == -ECONNRESET, "%zd", ret->size);
	ck_assert(ret->size <= 0 || ret->message.kind == kind);
	return ret->size > 0;
}

static bool connect_and_age(const char *path, int *ret)
{
	static struct batch batch;
	int socket = raw_try_to_connect(path, 0);

	*ret = socket;
	if (socket < 0)
		return false;
	encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ 0 });
	if (!ask_young(socket, KIND_WELCOME, &batch.reply))
		return false;
	raw_reply_deinit(&batch.reply);
	batch_put((const char *const[]){ "moment_young u32 x" }, 1);
	if (!ask_young(socket, KIND_REGISTERED, &batch.reply))
		return false;
	batch_read(&batch);
	batch_expect(&batch, 0);
	raw_reply_deinit(&batch.reply);
	raw_put_release(&batch.answer[0].bit, 1);
	if (!ask_young(socket, KIND_RELEASED, &batch.reply))
		return false;
	usleep(YOUNG_US);
	raw_packet(KIND_QUERY);
	return ask_young(socket, KIND_ACCOUNT, &batch.reply);
}

static int live(const char *path)
{
	uint32_t bit;
	int socket;

	while (!connect_and_age(path, &socket))
		fd_close(socket);
	bit = register_event(socket, "moment_a u32 x");
	register_event(socket, "moment_b u32 x");
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	register_event(socket, "moment_c u32 x");
	expect_account(socket, "leases=2");
	return EXIT_SUCCESS;
}

/* How many processes have not ended yet; false in `good` if any of them has failed. */
static unsigned still_run(const struct account *accounts, unsigned n, bool *good)
{
	unsigned left = n;

	for (unsigned i = 0; i < n; i++)
		left -= accounts[i].ended;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		*good = false;
	return *good ? left : 0;
}

static bool write_accounts(const char *path, const struct account *accounts, unsigned n)
{
	FILE *file = fopen(path, "we");
	bool good = file;

	for (unsigned i = 0; i < n && file; i++) {
		fprintf(file, "load_%u %u %llu\n", i, accounts[i].written, (unsigned long long)accounts[i].sum);
		good = good && accounts[i].registered > 0 && accounts[i].written > 0;
	}
	return file && fclose(file) == 0 && good;
}

int main(int argc, char **argv)
{
	unsigned n = argc == 3 ? (unsigned)atoi(argv[1]) : 0;
	struct sigaction action = { .sa_handler = on_signal };
	struct account *accounts;
	bool good = true;

	become_child();
	if (argc == 3 && streq(argv[1], "life"))
		return live(argv[2]);
	if (n == 0) {
		fprintf(stderr, "usage: restart_load CLIENTS FILE, or restart_load life SOCKET\n");
		return 2;
	}
	accounts = share_memory(n * sizeof(*accounts));
	sigaction(SIGTERM, &action, NULL);
	setpgid(0, 0);
	for (unsigned i = 0; i < n; i++)
		if (start_process() == 0)
			run(i, accounts + i);
	while (!ends)
		pause();
	kill(0, SIGTERM);
	while (still_run(accounts, n, &good) > 0)
		usleep(100000);
	return write_accounts(argv[2], accounts, n) && good ? EXIT_SUCCESS : EXIT_FAILURE;
}
