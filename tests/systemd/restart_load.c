/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * restart_load life SOCKET: one program that registers, releases and queries, and exits with 0 if all answers are correct. It may
 * connect again until its connection is old enough that the daemon has deposited it, and not later.
 *
 * restart_load CLIENTS FILE: that many programs which register, release and write all the time while daemon and keeper are killed. A
 * closed connection or a missing answer is printed and ends the program. At SIGTERM it writes a line for each program to FILE: the
 * event's name, the number of records, and their sum.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "protocol/wire.h"

enum {
	TIMEOUT_S = 120, /* of an answer */
	PAUSE_US = 40000,
	YOUNG_US = 500000, /* until its connection has certainly been deposited */
	EVENTS = 3,	   /* of each program, registered and released in turn */
	RECORDS = 3,
};

/* Shared with the parent. */
struct account {
	_Atomic uint64_t written;
	_Atomic uint64_t sum;
	_Atomic uint64_t registered;
	_Atomic bool ended;
	_Atomic bool failed;
};

struct program {
	unsigned number;
	struct account *account;
	int socket;
	bool is_young;
	uint32_t serial;
	const uint8_t *page;
	int stream;	   /* of its own event */
	struct answer own; /* its own event, for records */
	uint8_t packet[WIRE_PACKET_MAX];
};

static _Atomic bool ends;
static char **arguments;

static void on_signal(int signal _unused_)
{
	ends = true;
}

static _Noreturn void fail(struct program *program, const char *problem, int error)
{
	/* The client starts again, as a program that connects for the first time. */
	if (program->is_young && (error == -ECONNRESET || error == -EPIPE))
		execv("/proc/self/exe", arguments);
	fprintf(stderr, "program %u: %s: %s\n", program->number, problem,
		error ? strerror(-error) : "the connection has ended");
	program->account->failed = true;
	program->account->ended = true;
	_exit(EXIT_FAILURE);
}

static struct packet begin(struct program *program, uint16_t kind)
{
	struct packet packet = packet_make(program->packet, sizeof(program->packet));

	encode_begin(&packet, kind, ++program->serial, 0, NULL, 0);
	return packet;
}

/* Ignores repeated answers to earlier requests. 0, or a negative errno. */
static int ask(struct program *program, struct packet *packet, struct message *ret, struct fdset *fds)
{
	ssize_t size;
	int r;

	encode_end(packet);
	r = transport_send(program->socket, packet->data, packet->size, NULL, 0, 0);
	if (r < 0)
		return r;
	do {
		fdset_deinit(fds);
		size = transport_receive_fds(program->socket, program->packet, sizeof(program->packet), fds, 0);
		if (size <= 0)
			return size < 0 ? (int)size : -ECONNRESET;
		if (decode_message(program->packet, (size_t)size, ret) != 0)
			return -EPROTO;
	} while (ret->serial != program->serial && ret->kind != KIND_ERROR);
	return 0;
}

static void exchange(struct program *program, struct packet *packet, uint16_t kind, struct message *ret,
		     struct fdset *fds)
{
	int r = ask(program, packet, ret, fds);

	if (r < 0)
		fail(program, "no answer", r);
	if (ret->kind != kind)
		fail(program, "another answer", -EPROTO);
}

/* 0 or a negative errno. */
static int say_hello(struct program *program)
{
	struct packet packet = begin(program, KIND_HELLO);
	struct fdset fds = { 0 };
	struct message message;
	int r;

	encode_fixed(&packet, KIND_HELLO, &(struct wire_hello){ 0 });
	r = ask(program, &packet, &message, &fds);
	if (r < 0)
		return r;
	program->page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fds.fd[0], 0);
	fdset_deinit(&fds);
	return message.kind == KIND_WELCOME && program->page != MAP_FAILED ? 0 : -EPROTO;
}

static int connect_to(struct program *program, const char *path)
{
	static const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	struct sockaddr_un address;
	socklen_t length;

	program->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	setsockopt(program->socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (transport_address(path, &address, &length) < 0 ||
	    connect(program->socket, (struct sockaddr *)&address, length) < 0)
		return -errno;
	return say_hello(program);
}

/* The first file is the one of its own event. */
static void keep_stream(struct program *program, const struct message *message, struct fdset *fds, uint32_t number)
{
	for (size_t i = 0; i < message->streams && program->stream < 0; i++)
		if (message->stream[i] == number)
			program->stream = fdset_steal(fds, i);
	if (program->stream < 0)
		fail(program, "a stream without a file", -EPROTO);
}

static struct answer register_event(struct program *program, const char *name)
{
	struct packet packet = begin(program, KIND_REGISTER);
	size_t mark = encode_list(&packet, 0);
	struct fdset fds = { 0 };
	struct answers answers;
	struct message message;
	struct answer answer;
	char description[64];

	snprintf(description, sizeof(description), "%s u32 x", name);
	encode_string(&packet, 0, description, strlen(description));
	encode_count(&packet, mark, 1);
	exchange(program, &packet, KIND_REGISTERED, &message, &fds);
	if (decode_registered(message.body, &answers) != 0 || !answers_next(&answers, &answer))
		fail(program, "nonsense", -EPROTO);
	if (answer.refusal != 0)
		fail(program, refusal_name(answer.refusal), -EPERM);
	keep_stream(program, &message, &fds, answer.stream);
	fdset_deinit(&fds);
	program->account->registered++;
	return answer;
}

static void release_event(struct program *program, uint32_t bit)
{
	struct packet packet = begin(program, KIND_RELEASE);
	size_t mark = encode_list(&packet, 0);
	struct fdset fds = { 0 };
	struct message message;

	encode_release_bit(&packet, bit);
	encode_count(&packet, mark, 1);
	exchange(program, &packet, KIND_RELEASED, &message, &fds);
	fdset_deinit(&fds);
}

static bool is_on(const struct program *program)
{
	return __atomic_load_n(&program->page[program->own.bit / 8], __ATOMIC_ACQUIRE) >> program->own.bit % 8 & 1;
}

static void write_record(struct program *program, uint32_t x)
{
	const uint32_t record[] = { program->own.index, x };

	if (!is_on(program))
		return;
	if (write(program->stream, record, sizeof(record)) != sizeof(record))
		fail(program, "can't write", -errno);
	program->account->written++;
	program->account->sum += x;
}

static _Noreturn void run(unsigned number, struct account *account)
{
	static struct program program; /* large */
	char name[32];
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	program = (struct program){ .number = number, .account = account, .stream = -1 };
	r = connect_to(&program, "/run/userevd.sock");
	if (r < 0)
		fail(&program, "can't connect", r);
	snprintf(name, sizeof(name), "load_%u", number);
	program.own = register_event(&program, name);
	for (uint32_t x = 1; !ends; x++) {
		uint32_t bit;

		snprintf(name, sizeof(name), "load_%u_%u", number, x % EVENTS);
		bit = register_event(&program, name).bit;
		for (unsigned i = 0; i < RECORDS; i++)
			write_record(&program, x);
		release_event(&program, bit);
		usleep(PAUSE_US);
	}
	account->ended = true;
	/* Keeps its events until all programs have ended. */
	for (;;)
		pause();
}

static uint32_t count_leases(struct program *program)
{
	struct packet packet = begin(program, KIND_QUERY);
	struct wire_account account;
	struct fdset fds = { 0 };
	struct message message;

	exchange(program, &packet, KIND_ACCOUNT, &message, &fds);
	return decode_fixed(message.body, KIND_ACCOUNT, &account) == 0 ? (uint32_t)account.leases : UINT32_MAX;
}

static int live(const char *path)
{
	static struct account account;
	static struct program program; /* large */
	uint32_t bit;

	program = (struct program){ .account = &account, .stream = -1, .is_young = true };
	while (connect_to(&program, path) < 0)
		close(program.socket);
	release_event(&program, register_event(&program, "moment_young").bit);
	usleep(YOUNG_US);
	count_leases(&program);
	program.is_young = false;
	bit = register_event(&program, "moment_a").bit;
	register_event(&program, "moment_b");
	release_event(&program, bit);
	register_event(&program, "moment_c");
	return count_leases(&program) == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool all_have_ended(const struct account *accounts, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!accounts[i].ended)
			return false;
	return true;
}

static bool write_accounts(const char *path, const struct account *accounts, unsigned n)
{
	FILE *file = fopen(path, "we");
	bool good = file;

	for (unsigned i = 0; i < n && file; i++) {
		fprintf(file, "load_%u %llu %llu\n", i, (unsigned long long)accounts[i].written,
			(unsigned long long)accounts[i].sum);
		good = good && !accounts[i].failed && accounts[i].registered > 1 && accounts[i].written > 0;
	}
	return file && fclose(file) == 0 && good;
}

int main(int argc, char **argv)
{
	unsigned n = argc == 3 ? (unsigned)atoi(argv[1]) : 0;
	struct sigaction action = { .sa_handler = on_signal };
	struct account *accounts;

	arguments = argv;
	if (argc == 3 && streq(argv[1], "life"))
		return live(argv[2]);
	if (n == 0) {
		fprintf(stderr, "usage: restart_load CLIENTS FILE, or restart_load life SOCKET\n");
		return 2;
	}
	accounts = mmap(NULL, n * sizeof(*accounts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (accounts == MAP_FAILED)
		return EXIT_FAILURE;
	sigaction(SIGTERM, &action, NULL);
	setpgid(0, 0);
	for (unsigned i = 0; i < n; i++)
		if (fork() == 0)
			run(i, accounts + i);
	while (!ends)
		pause();
	kill(0, SIGTERM);
	while (!all_have_ended(accounts, n))
		usleep(100000);
	return write_accounts(argv[2], accounts, n) ? EXIT_SUCCESS : EXIT_FAILURE;
}
