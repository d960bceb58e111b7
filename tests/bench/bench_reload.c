/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long a reload of many sections keeps clients waiting: one asks a small question over and over, others register and
 * release all the time, and the daemon reads its policy again in every other group of round trips. Prints the ordinary one,
 * and the longest of such a group with a reload and without, from the same run: of many groups the median, for now and then
 * somebody waits long for a processor, reload or not. Nothing here is a test. No privilege is needed.
 *
 *	bench_reload [SECTIONS]
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "protocol/wire.h"
#include "tests/bench/bench.h"

enum { LOADERS = 4, GROUPS = 200, TRIPS = 400 };

static char directory[] = "/tmp/userevd-bench-XXXXXX";
static char socket_path[64], policy_path[64];

static void write_policy(unsigned sections)
{
	FILE *file = fopen(policy_path, "we");

	if (!file)
		fail(policy_path);
	for (unsigned i = 0; i < sections; i++)
		fprintf(file,
			"[/machine.slice/pod-%u/*.scope]\nMaxEvents=%u\nReserveEvents=10\nAllowEvents=app_* lib_%u_*\n"
			"DenyEvents=*_secret\nMaxConnections=100\n",
			i, 100 + i, i);
	if (fclose(file) != 0)
		fail(policy_path);
}

static pid_t start_daemon(void)
{
	char socket[96], control[96], policy[96], ready[32], program[4096], byte;
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 64);
	int pipe_fds[2];
	pid_t pid;

	program[n > 0 ? n : 0] = '\0';
	*strrchr(program, '/') = '\0';
	snprintf(strrchr(program, '/'), 32, "/userevd");
	snprintf(socket, sizeof(socket), "--socket=%s", socket_path);
	snprintf(control, sizeof(control), "--control-socket=%s/c", directory);
	snprintf(policy, sizeof(policy), "--policy=%s", directory);
	if (pipe(pipe_fds) < 0)
		fail("pipe");
	snprintf(ready, sizeof(ready), "--ready-fd=%d", pipe_fds[1]);
	pid = fork();
	if (pid == 0) {
		close(pipe_fds[0]);
		execl(program, "userevd", socket, control, policy, ready, "--backend=embedded", "--foreground",
		      "--exit-with-parent", "--log-level=err", NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &byte, 1) != 1)
		fail("the daemon did not start");
	close(pipe_fds[0]);
	return pid;
}

static uint8_t buffer[WIRE_PACKET_MAX];

static void exchange(int fd, struct packet *packet)
{
	struct fdset fds = { 0 };

	encode_end(packet);
	if (transport_send(fd, packet->data, packet->size, NULL, 0, 0) < 0 ||
	    transport_receive_fds(fd, buffer, sizeof(buffer), &fds, 0) <= 0)
		fail("the daemon");
	fdset_deinit(&fds);
}

static struct packet begin(uint16_t kind)
{
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, kind, 1, 0, NULL, 0);
	return packet;
}

static int greet(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct packet packet = begin(KIND_HELLO);
	struct sockaddr_un address;
	socklen_t length;

	transport_address(socket_path, &address, &length);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		fail("connect");
	encode_hello(&packet, &(struct wire_hello){ 0 });
	exchange(fd, &packet);
	return fd;
}

static double trip(int fd)
{
	struct packet packet = begin(KIND_QUERY);
	double start = now();

	exchange(fd, &packet);
	return now() - start;
}

/* Registers ten events anew, again and again. */
static void load(unsigned number)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = greet();
		struct packet packet = begin(KIND_REGISTER);
		size_t mark = encode_strings(&packet, 0);

		for (unsigned i = 0; i < 10; i++) {
			char text[64];
			int length = snprintf(text, sizeof(text), "load_%u_%u u32 a; u64 b", number, i);

			encode_string(&packet, 0, text, (size_t)length);
		}
		encode_count(&packet, mark, 10);
		exchange(fd, &packet);
		close(fd);
		usleep(2000);
	}
}

static double longest(int fd, double *ret_median)
{
	static double times[TRIPS];

	for (unsigned i = 0; i < TRIPS; i++)
		times[i] = trip(fd);
	*ret_median = median(times, TRIPS);
	return times[TRIPS - 1];
}

int main(int argc, char **argv)
{
	unsigned sections = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 500;
	static double with[GROUPS], without[GROUPS], ordinary[GROUPS];
	double ignored;
	pid_t daemon, loaders[LOADERS];
	int fd;

	if (!mkdtemp(directory) || chmod(directory, 0755) < 0)
		fail(directory);
	snprintf(socket_path, sizeof(socket_path), "%s/s", directory);
	snprintf(policy_path, sizeof(policy_path), "%s/policy.conf", directory);
	write_policy(sections);
	daemon = start_daemon();
	for (unsigned i = 0; i < LOADERS; i++) {
		loaders[i] = fork();
		if (loaders[i] == 0)
			load(i);
	}
	fd = greet();
	for (unsigned i = 0; i < GROUPS; i++) {
		without[i] = longest(fd, &ordinary[i]);
		kill(daemon, SIGHUP);
		with[i] = longest(fd, &ignored);
	}
	printf("a round trip while %d programs register all the time, medians of %d groups of %d\n", LOADERS, GROUPS,
	       TRIPS);
	printf("%-58s %9.1f us\n", "ordinary", median(ordinary, GROUPS));
	printf("%-58s %9.1f us\n", "the longest of a group", median(without, GROUPS));
	printf("the longest of one with a reload of %3u sections           %9.1f us: longer by %.1f ordinary ones\n",
	       sections, median(with, GROUPS),
	       (median(with, GROUPS) - median(without, GROUPS)) / median(ordinary, GROUPS));
	for (unsigned i = 0; i < LOADERS; i++) {
		kill(loaders[i], SIGKILL);
		waitpid(loaders[i], NULL, 0);
	}
	kill(daemon, SIGTERM);
	waitpid(daemon, NULL, 0);
	unlink(policy_path);
	rmdir(directory);
	return EXIT_SUCCESS;
}
