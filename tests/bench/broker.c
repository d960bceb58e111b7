/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon in a directory of its own, and packets to it. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"

enum { NOBODY = 65534, FIRST_FD = 3, ARGUMENTS_MAX = 16, BACKLOG = 4096, POLICY_BYTES = 4096 };

/* Who has a maximum of his own is not held to a fair share of what is left. */
const char no_limits[] = "[Daemon]\nDefaultMaxConnections=infinity\n[/**]\nMaxEvents=32700\n";

bool has_user_events(void)
{
	return access("/sys/kernel/tracing/user_events_data", F_OK) == 0;
}

/* --- starting and ending --- */

static void make_directory(struct broker *broker, const char *policy)
{
	char path[128];

	snprintf(broker->directory, sizeof(broker->directory), "/tmp/userevd-bench-XXXXXX");
	if (!mkdtemp(broker->directory) || chmod(broker->directory, 0755) < 0)
		fail(broker->directory);
	snprintf(broker->socket, sizeof(broker->socket), "%s/clients", broker->directory);
	snprintf(broker->control, sizeof(broker->control), "%s/control", broker->directory);
	snprintf(broker->keeper_socket, sizeof(broker->keeper_socket), "%s/keeper", broker->directory);
	snprintf(path, sizeof(path), "%s/bench.conf", broker->directory);
	write_text(path, policy);
	/* All that one tenant may have, which is alone. */
	if (access("/proc/sys/kernel/user_events_max", W_OK) == 0)
		write_text("/proc/sys/kernel/user_events_max", "64900");
}

static void add(const char **argv, const char *argument)
{
	while (*argv)
		argv++;
	*argv = argument;
}

static pid_t spawn(const char **argv, int kept)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (kept >= 0)
		fcntl(kept, F_SETFD, 0);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

void broker_start(struct broker *broker, const char *backend, const char *policy)
{
	char socket[128], control[128], where[128], which[64], ready[32], byte;
	const char *argv[ARGUMENTS_MAX] = {
		built("userevd"),     socket,		control, where, ready, which, "--foreground",
		"--exit-with-parent", "--log-level=err"
	};
	int ends[2];

	*broker = (struct broker){ .backend = backend };
	make_directory(broker, policy);
	if (pipe2(ends, O_CLOEXEC) < 0)
		fail("pipe");
	snprintf(socket, sizeof(socket), "--socket=%s", broker->socket);
	snprintf(control, sizeof(control), "--control-socket=%s", broker->control);
	snprintf(where, sizeof(where), "--policy=%s", broker->directory);
	snprintf(ready, sizeof(ready), "--ready-fd=%d", ends[1]);
	snprintf(which, sizeof(which), "--backend=%s", backend ? backend : "auto");
	if (geteuid() == 0)
		add(argv, "--user=nobody");
	broker->daemon = spawn(argv, ends[1]);
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		fail("the daemon did not start");
	close(ends[0]);
}

static int listen_at(const char *path, mode_t mode, int pass_credentials)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	transport_address(path, &address, &length);
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &pass_credentials, sizeof(int));
	if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, BACKLOG) < 0 || chmod(path, mode) < 0)
		fail(path);
	return fd;
}

/* With fds from 3 on, of these names. */
static pid_t spawn_listening(const char **argv, const int *fds, unsigned n, const char *names)
{
	char text[32];
	pid_t pid = fork();
	int moved[2];

	if (pid != 0)
		return pid;
	for (unsigned i = 0; i < n; i++)
		moved[i] = fcntl(fds[i], F_DUPFD, 64);
	for (unsigned i = 0; i < n; i++)
		dup2(moved[i], FIRST_FD + (int)i);
	close_range(FIRST_FD + n, ~0U, 0);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	setenv("LISTEN_FDS", n == 1 ? "1" : "2", 1);
	setenv("LISTEN_FDNAMES", names, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

void broker_start_daemon(struct broker *broker)
{
	char keeper[128], where[128];
	const char *argv[] = { built("userevd"), "--foreground", "--log-level=err", "--user=nobody",
			       keeper,		 where,		 broker->tenants,   NULL };
	const int fds[] = { broker->clients, broker->controls };

	snprintf(keeper, sizeof(keeper), "--keeper-socket=%s", broker->keeper_socket);
	snprintf(where, sizeof(where), "--policy=%s", broker->directory);
	broker->daemon = spawn_listening(argv, fds, 2, "clients:control");
}

void broker_start_apart(struct broker *broker, const char *policy, const char *tenants)
{
	const char *argv[] = { built("userevd-keeper"), "--guard=prefer", "--hold=60", NULL };

	*broker = (struct broker){ .tenants = tenants };
	make_directory(broker, policy);
	broker->clients = listen_at(broker->socket, 0666, 1);
	broker->controls = listen_at(broker->control, 0600, 1);
	broker->keepers = listen_at(broker->keeper_socket, 0600, 0);
	if (chown(broker->keeper_socket, NOBODY, NOBODY) < 0)
		fail(broker->keeper_socket);
	broker->keeper = spawn_listening(argv, &broker->keepers, 1, "keeper");
	broker_start_daemon(broker);
}

static void end(pid_t pid)
{
	if (pid == 0)
		return;
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

void broker_stop(struct broker *broker)
{
	char path[128];

	end(broker->daemon);
	end(broker->keeper);
	if (broker->clients) {
		close(broker->clients);
		close(broker->controls);
		close(broker->keepers);
	}
	snprintf(path, sizeof(path), "%s/bench.conf", broker->directory);
	unlink(path);
	unlink(broker->socket);
	unlink(broker->control);
	unlink(broker->keeper_socket);
	rmdir(broker->directory);
}

/* --- packets --- */

static uint8_t *buffer(void)
{
	static uint8_t bytes[WIRE_PACKET_MAX];

	return bytes;
}

static uint32_t serial;

static struct packet begin(uint16_t kind)
{
	struct packet packet = packet_make(buffer(), WIRE_PACKET_MAX);

	encode_begin(&packet, kind, ++serial, 0, NULL, 0);
	return packet;
}

static struct message receive(int fd, struct fdset *ret)
{
	struct message message;
	ssize_t size = transport_receive_fds(fd, buffer(), WIRE_PACKET_MAX, ret, 0);

	if (size <= 0 || decode_message(buffer(), (size_t)size, &message) != 0 || message.kind == KIND_ERROR)
		fail("from the daemon");
	return message;
}

/* A daemon that takes another one's place may repeat the answer before. */
static struct message exchange(int fd, struct packet *packet, struct fdset *ret)
{
	struct message message;

	encode_end(packet);
	if (transport_send(fd, packet->data, packet->size, NULL, 0, 0) < 0)
		fail("to the daemon");
	for (;;) {
		message = receive(fd, ret);
		if (message.serial == serial)
			return message;
		fdset_deinit(ret);
	}
}

int dial(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	transport_address(path, &address, &length);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		fail("connect");
	return fd;
}

void greet(int socket, int *ret_page)
{
	struct packet packet = begin(KIND_HELLO);
	struct fdset fds = { 0 };

	encode_hello(&packet, &(struct wire_hello){ 0 });
	exchange(socket, &packet, &fds);
	if (ret_page)
		*ret_page = fdset_steal(&fds, 0);
	fdset_deinit(&fds);
}

int connect_to_broker(const struct broker *broker)
{
	int fd = dial(broker->socket);

	greet(fd, NULL);
	return fd;
}

static uint32_t first_index(struct cursor body, unsigned n)
{
	struct answers answers;
	struct answer answer;
	uint32_t first = 0;

	if (decode_registered(body, &answers) != 0 || answers.count != n)
		fail("REGISTERED");
	for (unsigned i = 0; answers_next(&answers, &answer); i++) {
		if (answer.refusal) {
			fprintf(stderr, "refused: %.*s\n", (int)answer.length, answer.text);
			exit(EXIT_FAILURE);
		}
		if (i == 0)
			first = answer.index;
	}
	return first;
}

static uint32_t ask_batch(int socket, char (*names)[NAME_BYTES], unsigned n, struct fdset *ret)
{
	struct packet packet = begin(KIND_REGISTER);
	size_t mark = encode_strings(&packet, 0);

	for (unsigned i = 0; i < n; i++)
		encode_string(&packet, 0, names[i], strlen(names[i]));
	encode_count(&packet, mark, (uint16_t)n);
	return first_index(exchange(socket, &packet, ret).body, n);
}

void ask_broker(int socket, char (*names)[NAME_BYTES], unsigned n, int *ret_stream, uint32_t *ret_index)
{
	for (unsigned done = 0; done < n; done += WIRE_BATCH_MAX) {
		unsigned batch = n - done < WIRE_BATCH_MAX ? n - done : WIRE_BATCH_MAX;
		struct fdset fds = { 0 };
		uint32_t index = ask_batch(socket, names + done, batch, &fds);

		if (ret_stream && fds.count > 0)
			*ret_stream = fdset_steal(&fds, 0);
		if (ret_index && done == 0)
			*ret_index = index;
		fdset_deinit(&fds);
	}
}

struct wire_account query_broker(int socket)
{
	struct packet packet = begin(KIND_QUERY);
	struct wire_account account;
	struct fdset fds = { 0 };

	if (decode_account(exchange(socket, &packet, &fds).body, &account) != 0)
		fail("ACCOUNT");
	fdset_deinit(&fds);
	return account;
}

/* All of them wait at a time, as programs do. */
void query_by_all(const int *sockets, unsigned n)
{
	uint32_t before = serial;

	for (unsigned i = 0; i < n; i++) {
		struct packet packet = begin(KIND_QUERY);

		encode_end(&packet);
		if (transport_send(sockets[i], packet.data, packet.size, NULL, 0, 0) < 0)
			fail("to the daemon");
	}
	for (unsigned i = 0; i < n; i++) {
		struct fdset fds = { 0 };

		while (receive(sockets[i], &fds).serial != before + 1 + i)
			fdset_deinit(&fds);
		fdset_deinit(&fds);
	}
}

void broker_settle(const struct broker *broker)
{
	int fd = connect_to_broker(broker);

	while (query_broker(fd).events > 0)
		usleep(20000);
	close(fd);
	if (has_user_events())
		direct_settle();
}

/* --- through libuserev --- */

struct userev *broker_open(const struct broker *broker)
{
	struct userev *userev = userev_open(broker->socket, 0);

	if (!userev)
		fail("userev_open");
	return userev;
}

static _Noreturn void complain(const struct userev_registration *asked, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (asked[i].result) {
			fprintf(stderr, "%s: %s\n", asked[i].description, asked[i].why);
			break;
		}
	exit(EXIT_FAILURE);
}

void broker_register(struct userev *userev, struct userev_event *events, char (*names)[NAME_BYTES], unsigned n)
{
	struct userev_registration *asked = calloc(n, sizeof(*asked));

	if (!asked)
		fail("calloc");
	for (unsigned i = 0; i < n; i++)
		asked[i] = (struct userev_registration){ .event = &events[i], .description = names[i] };
	if (userev_register_all(userev, asked, n) != 0)
		complain(asked, n);
	/* It has waited two seconds, and for 10,000 events a guest takes longer. */
	while (!userev_event_name(&events[n - 1]))
		if (userev_poll(userev, -1) < 0)
			usleep(1000);
	free(asked);
}

void broker_switch(const struct broker *broker, const char *name, bool on)
{
	char control[128];
	const char *argv[] = { built("userevctl"), control, on ? "enable" : "disable", name, NULL };

	snprintf(control, sizeof(control), "--control-socket=%s", broker->control);
	if (!run(argv))
		fail("userevctl");
}

static void note_what_matters(FILE *file)
{
	char line[256];

	while (fgets(line, sizeof(line), file))
		if (strstr(line, "Backend: ") || strstr(line, "Guard: "))
			note("%.*s", (int)strcspn(line + strspn(line, " "), "\n"), line + strspn(line, " "));
}

void broker_describe(const struct broker *broker)
{
	char control[128], path[128];
	const char *argv[] = { built("userevctl"), control, "status", NULL };
	FILE *file;

	snprintf(control, sizeof(control), "--control-socket=%s", broker->control);
	snprintf(path, sizeof(path), "%s.status", broker->directory);
	finish(start(argv, path), 0);
	file = fopen(path, "re");
	if (!file)
		return;
	note_what_matters(file);
	fclose(file);
	unlink(path);
}
