/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What the broker costs and saves beside the direct ioctl, both sides in turn in the same run, as root on a kernel with
 * user_events of 6.4 or later. Prints medians and ratios; nothing here is a test.
 *
 *	bench_user_events [ROUNDS [same|new|record|among]]
 */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <sys/un.h>

#include "client/userev.h"
#include "kernel/uapi.h"
#include "protocol/transport.h"
#include "protocol/wire.h"
#include "tests/bench/bench.h"

#define TRACEFS "/sys/kernel/tracing"

enum { ROUNDS_MAX = 25, EVENTS_MAX = 32000 };

static char directory[] = "/tmp/userevd-bench-XXXXXX";
static char socket_path[64], control_path[64];
static unsigned rounds = 5, unique;
static const char *wanted; /* NULL: all */

struct result {
	double ours[ROUNDS_MAX], theirs[ROUNDS_MAX];
};

static void report(const char *question, struct result *result, const char *against)
{
	double ours = median(result->ours, rounds), theirs = median(result->theirs, rounds);

	printf("%-58s %12.1f %12.1f  %7.3f  %s [%.1f to %.1f, %.1f to %.1f]\n", question, ours, theirs, ours / theirs,
	       against, result->ours[0], result->ours[rounds - 1], result->theirs[0], result->theirs[rounds - 1]);
	fflush(stdout);
}

/* The daemon, with all that it starts. */
static pid_t start_daemon(void)
{
	char socket[96], control[96], self[4096], ready[32], *slash, byte;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 64);
	int pipe_fds[2];
	pid_t pid;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	snprintf(strrchr(self, '/'), 32, "/userevd");
	snprintf(socket, sizeof(socket), "--socket=%s", socket_path);
	snprintf(control, sizeof(control), "--control-socket=%s", control_path);
	if (pipe(pipe_fds) < 0)
		fail("pipe");
	snprintf(ready, sizeof(ready), "--ready-fd=%d", pipe_fds[1]);
	pid = fork();
	if (pid == 0) {
		close(pipe_fds[0]);
		execl(self, "userevd", socket, control, ready, "--backend=enable-address", "--max-events=32700",
		      "--foreground", "--exit-with-parent", NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &byte, 1) != 1)
		fail("the daemon did not start");
	close(pipe_fds[0]);
	return pid;
}

static void stop_daemon(pid_t pid)
{
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

static void make_names(char (*names)[64], unsigned n)
{
	unique++;
	for (unsigned i = 0; i < n; i++)
		snprintf(names[i], sizeof(names[i]), "bench_%u_%u u32 a; u64 b", unique, i);
}

/* Each with a word of its own, as programs do it. */
static void register_directly(int data, char (*names)[64], unsigned n, uint32_t *words, uint32_t *indexes)
{
	for (unsigned i = 0; i < n; i++) {
		struct uapi_register asked = {
			.size = sizeof(asked),
			.enable_size = 4,
			.enable_address = (uint64_t)(uintptr_t)&words[i],
			.description = (uint64_t)(uintptr_t)names[i],
		};

		if (ioctl(data, UAPI_IOCTL_REGISTER, &asked) < 0)
			fail("REG");
		indexes[i] = asked.index;
	}
}

static int open_data(void)
{
	int data = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);

	if (data < 0)
		fail("user_events_data");
	return data;
}

static struct userev *open_broker(void)
{
	struct userev *userev = userev_open(socket_path, 0);

	if (!userev)
		fail("userev_open");
	return userev;
}

static void register_brokered(struct userev *userev, struct userev_event *events, char (*names)[64], unsigned n)
{
	struct userev_registration *asked = calloc(n, sizeof(*asked));

	for (unsigned i = 0; i < n; i++)
		asked[i] = (struct userev_registration){ .event = &events[i], .description = names[i] };
	if (userev_register_all(userev, asked, n) != 0) {
		for (unsigned i = 0; i < n; i++)
			if (asked[i].result) {
				fprintf(stderr, "%s: %s\n", names[i], asked[i].why);
				break;
			}
		exit(EXIT_FAILURE);
	}
	/* The library's patience is a program's, and a guest is slow. */
	while (!userev_event_name(&events[n - 1]))
		if (userev_connected(userev) < 0)
			usleep(1000);
	free(asked);
}

/* --- many programs, the same events --- */

/* Pipes: who waits costs nothing. */
struct gate {
	int open[2];  /* closed: begin */
	int leave[2]; /* closed: end */
	int done[2];  /* a byte from each: ready, and later done */
};

static void wait_for_close(const int ends[2])
{
	char byte;

	close(ends[1]);
	while (read(ends[0], &byte, 1) > 0)
		;
}

static void wait_for_bytes(int fd, unsigned n)
{
	char byte;

	while (n > 0)
		n -= read(fd, &byte, 1) == 1;
}

/* What it needs before it asks for events, and that. */
struct program {
	int (*begin)(void);
	void (*ask)(int fd, char (*names)[64], unsigned n);
};

static uint32_t *words_of(unsigned n)
{
	return calloc(n, sizeof(uint32_t));
}

static void ask_kernel(int data, char (*names)[64], unsigned n)
{
	register_directly(data, names, n, words_of(n), words_of(n));
}

static const struct program direct_program = { open_data, ask_kernel };

/* One packet, and its answer, for as long as that takes: the library's patience is a program's, and a guest is slow. */
static void exchange(int fd, struct packet *packet, uint8_t *buffer, struct fdset *ret)
{
	encode_end(packet);
	if (transport_send(fd, packet->data, packet->size, NULL, 0, 0) < 0 ||
	    transport_receive_fds(fd, buffer, WIRE_PACKET_MAX, ret, 0) <= 0)
		fail("the daemon");
}

/* As the library does it, in two packets. */
static int connect_to_daemon(void)
{
	uint8_t *buffer = malloc(WIRE_PACKET_MAX);
	struct packet packet = packet_make(buffer, WIRE_PACKET_MAX);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct fdset fds = { 0 };
	struct sockaddr_un address;
	socklen_t length;

	transport_address(socket_path, &address, &length);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		fail("connect");
	encode_begin(&packet, KIND_HELLO, 1, 0, NULL, 0);
	encode_hello(&packet, &(struct wire_hello){ 0 });
	exchange(fd, &packet, buffer, &fds);
	free(buffer);
	return fd;
}

static void ask_daemon(int fd, char (*names)[64], unsigned n)
{
	uint8_t *buffer = malloc(WIRE_PACKET_MAX);
	struct packet packet = packet_make(buffer, WIRE_PACKET_MAX);
	struct fdset fds = { 0 };
	struct message message;
	struct answers answers;
	struct answer answer;
	size_t mark;

	encode_begin(&packet, KIND_REGISTER, 2, 0, NULL, 0);
	mark = encode_strings(&packet, 0);
	for (unsigned i = 0; i < n; i++)
		encode_string(&packet, 0, names[i], strlen(names[i]));
	encode_count(&packet, mark, (uint16_t)n);
	exchange(fd, &packet, buffer, &fds);
	if (decode_message(buffer, ((struct wire_header *)(void *)buffer)->size, &message) != 0 ||
	    decode_registered(message.body, &answers) != 0 || answers.count != n)
		fail("REGISTERED");
	while (answers_next(&answers, &answer))
		if (answer.refusal)
			fail("refused");
}

static const struct program brokered_program = { connect_to_daemon, ask_daemon };

/*
 * From the moment when all of them may begin, or, where they have begun, may ask, until the last has its events; `while_held`
 * then runs before they leave.
 */
static double run_programs(unsigned programs, const struct program *program, bool have_begun, char (*names)[64],
			   unsigned n, double (*while_held)(char (*)[64]), double *ret_held)
{
	pid_t *pids = calloc(programs, sizeof(*pids));
	double start, took;
	struct gate gate;

	if (pipe(gate.open) < 0 || pipe(gate.leave) < 0 || pipe(gate.done) < 0)
		fail("pipe");
	for (unsigned i = 0; i < programs; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			int fd = -1;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (have_begun)
				fd = program->begin();
			if (write(gate.done[1], "r", 1) != 1)
				_exit(1);
			wait_for_close(gate.open);
			if (!have_begun)
				fd = program->begin();
			program->ask(fd, names, n);
			if (write(gate.done[1], "d", 1) != 1)
				_exit(1);
			wait_for_close(gate.leave);
			_exit(0);
		}
	}
	wait_for_bytes(gate.done[0], programs);
	usleep(100000);
	start = now();
	close(gate.open[1]);
	wait_for_bytes(gate.done[0], programs);
	took = now() - start;
	if (while_held)
		*ret_held = while_held(names);
	close(gate.leave[1]);
	for (unsigned i = 0; i < programs; i++)
		waitpid(pids[i], NULL, 0);
	close(gate.open[0]);
	close(gate.leave[0]);
	close(gate.done[0]);
	close(gate.done[1]);
	free(pids);
	return took;
}

static double switch_on(char (*names)[64])
{
	char path[160];
	double start;
	int fd;

	snprintf(path, sizeof(path), TRACEFS "/events/user_events/%.*s/enable", (int)strcspn(names[0], " "), names[0]);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		fail(path);
	start = now();
	if (write(fd, "1", 1) != 1)
		fail(path);
	start = now() - start;
	if (write(fd, "0", 1) != 1)
		fail(path);
	close(fd);
	return start;
}

static void same_events(unsigned programs, bool have_begun, unsigned n)
{
	static char names[1000][64];
	struct result result, switching;
	char question[96];

	for (unsigned i = 0; i < rounds; i++) {
		make_names(names, n);
		result.ours[i] =
			run_programs(programs, &brokered_program, have_begun, names, n, switch_on, &switching.ours[i]);
		usleep(300000);
		make_names(names, n);
		result.theirs[i] =
			run_programs(programs, &direct_program, have_begun, names, n, switch_on, &switching.theirs[i]);
		usleep(300000);
	}
	snprintf(question, sizeof(question), "%u programs%s, each the same %u events: all, us", programs,
		 have_begun ? " that are connected" : "", n);
	report(question, &result, "direct ioctls");
	if (have_begun)
		return;
	snprintf(question, sizeof(question), "turning on an event that %u programs hold, us", programs);
	report(question, &switching, "held directly");
}

/* --- one program, new events --- */

static void new_events(unsigned n)
{
	char(*names)[64] = calloc(n, 64);
	struct userev_event *events = calloc(n, sizeof(*events));
	struct result result;
	char question[96];

	for (unsigned i = 0; i < rounds; i++) {
		struct userev *userev;
		double start;

		make_names(names, n);
		result.theirs[i] = run_programs(1, &direct_program, false, names, n, NULL, NULL) / n;
		usleep(300000);
		make_names(names, n);
		start = now();
		userev = open_broker();
		register_brokered(userev, events, names, n);
		result.ours[i] = (now() - start) / n;
		userev_close(userev);
		memset(events, 0, n * sizeof(*events));
		usleep(500000);
	}
	snprintf(question, sizeof(question), "%u new events of one program: each, us", n);
	report(question, &result, "direct ioctls");
	free(names);
	free(events);
}

/* --- a grant among few and among many --- */

static double grant_16(void)
{
	static char names[16][64];
	struct userev_event events[16] = { 0 };
	double times[41];

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct userev *userev = open_broker();
		double start;

		make_names(names, 16);
		start = now();
		register_brokered(userev, events, names, 16);
		times[i] = now() - start;
		userev_close(userev);
		memset(events, 0, sizeof(events));
		/* What it had is let go of meanwhile. */
		usleep(100000);
	}
	return median(times, ARRAY_SIZE(times));
}

static void grants_among(unsigned few, unsigned many)
{
	char(*names)[64] = calloc(many, 64);
	struct userev_event *events = calloc(many, sizeof(*events));
	struct userev *userev = open_broker();
	struct result result;
	unsigned saved = rounds;
	char question[96];
	double start;

	make_names(names, many);
	register_brokered(userev, events, names, few);
	result.theirs[0] = grant_16();
	start = now();
	register_brokered(userev, events + few, names + few, many - few);
	printf("%u events of one program registered in %.1f s\n", many, (now() - start) / 1e6);
	result.ours[0] = grant_16();
	rounds = 1;
	snprintf(question, sizeof(question), "16 new events with %u registered: all, us", many);
	report(question, &result, "with 100 registered");
	rounds = saved;
	userev_close(userev);
	free(names);
	free(events);
}

/* --- a record --- */

/* As programs do that have the payload somewhere: the index in front of it. */
static double write_records(int data, uint32_t index)
{
	struct {
		uint32_t a;
		uint64_t b;
	} __attribute__((packed)) payload = { 0 };
	const struct iovec record[] = { { &index, sizeof(index) }, { &payload, sizeof(payload) } };
	enum { N = 20000 };
	double start = now();

	for (unsigned i = 0; i < N; i++)
		if (writev(data, record, 2) != sizeof(index) + sizeof(payload))
			fail("writev");
	return (now() - start) / N;
}

static double write_brokered(struct userev_event *event)
{
	struct {
		uint32_t a;
		uint64_t b;
	} __attribute__((packed)) payload = { 0 };
	enum { N = 20000 };
	double start = now();

	for (unsigned i = 0; i < N; i++)
		if (userev_write(event, &payload, sizeof(payload)) != sizeof(payload))
			fail("userev_write");
	return (now() - start) / N;
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

static void records(void)
{
	static char names[2][64];
	struct userev_event event = { 0 };
	struct userev *userev = open_broker();
	static uint32_t word, index;
	struct result result;
	int data = open_data();

	make_names(names, 1);
	register_brokered(userev, &event, names, 1);
	register_directly(data, names, 1, &word, &index);
	snprintf(names[1], 64, "%.*s", (int)strcspn(names[0], " "), names[0]);
	write_text(TRACEFS "/events/user_events/enable", "1");
	for (unsigned i = 0; i < rounds; i++) {
		result.ours[i] = write_brokered(&event);
		result.theirs[i] = write_records(data, index);
	}
	report("a record, by libuserev through the passed file: us", &result, "writev() to one's own file");
	write_text(TRACEFS "/events/user_events/enable", "0");
	write_text(TRACEFS "/trace", "\n");
	close(data);
	userev_close(userev);
}

static bool is_wanted(const char *part)
{
	return !wanted || strcmp(wanted, part) == 0;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 20000, 20000 };
	struct utsname system_name;
	pid_t daemon;

	if (argc > 1)
		rounds = (unsigned)strtoul(argv[1], NULL, 10);
	if (rounds == 0 || rounds > ROUNDS_MAX)
		rounds = 5;
	wanted = argc > 2 ? argv[2] : NULL;
	setrlimit(RLIMIT_NOFILE, &files);
	if (!mkdtemp(directory))
		fail(directory);
	snprintf(socket_path, sizeof(socket_path), "%s/s", directory);
	snprintf(control_path, sizeof(control_path), "%s/c", directory);
	uname(&system_name);
	printf("Linux %s, %ld processors, medians of %u rounds\n", system_name.release, sysconf(_SC_NPROCESSORS_ONLN),
	       rounds);
	printf("%-58s %12s %12s  %7s\n", "", "broker", "other", "ratio");
	/* One tenant that is alone may have half of what the machine has room for, and is to have 30,000. */
	write_text("/proc/sys/kernel/user_events_max", "64900");
	daemon = start_daemon();
	if (is_wanted("same")) {
		same_events(200, false, 100);
		same_events(200, true, 100);
	}
	if (is_wanted("new")) {
		new_events(100);
		new_events(1000);
	}
	if (is_wanted("record"))
		records();
	if (is_wanted("among"))
		grants_among(100, 30000);
	stop_daemon(daemon);
	rmdir(directory);
	return EXIT_SUCCESS;
}
