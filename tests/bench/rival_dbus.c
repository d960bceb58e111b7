/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * dbus-broker on a bus of its own, and a client of it that does no more than it must: a greeting, and the same call again and
 * again. Its launcher wants to be heard by a journal; where there is none it gets one in a mount namespace, which takes root.
 */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

#define JOURNAL "/run/systemd/journal"

enum { FIRST_FD = 3, MESSAGE_MAX = 512, BACKLOG = 4096 };

static char directory[] = "/tmp/userevd-dbus-XXXXXX";
static char bus[64], configuration[64], address_of_bus[96];
static pid_t launcher;

static int bind_at(const char *path, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	transport_address(path, &address, &length);
	return fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 ? fd : -1;
}

static bool have_journal(void)
{
	if (access(JOURNAL "/socket", F_OK) == 0)
		return true;
	mkdir("/run/systemd", 0755);
	mkdir(JOURNAL, 0755);
	/* Left open, also by the launcher, and never read. */
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("tmpfs", JOURNAL, "tmpfs", 0, NULL) == 0 &&
	       fcntl(bind_at(JOURNAL "/socket", SOCK_DGRAM), F_SETFD, 0) == 0;
}

static _Noreturn void launch(int listener)
{
	char pid[32];

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (!have_journal())
		_exit(EXIT_FAILURE);
	dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
	dup2(listener, FIRST_FD);
	fcntl(FIRST_FD, F_SETFD, 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	/* It is a client of the bus that it launches. */
	setenv("DBUS_SESSION_BUS_ADDRESS", address_of_bus, 1);
	execlp("dbus-broker-launch", "dbus-broker-launch", "--scope=user", "--config-file", configuration, NULL);
	_exit(EXIT_FAILURE);
}

static void configure(void)
{
	static const char text[] =
		"<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\"\n"
		" \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
		"<busconfig><type>session</type><auth>EXTERNAL</auth>\n"
		"<policy context=\"default\"><allow send_destination=\"*\"/><allow own=\"*\"/></policy>\n"
		"<limit name=\"max_completed_connections\">100000</limit>\n"
		"<limit name=\"max_connections_per_user\">100000</limit></busconfig>\n";

	if (!mkdtemp(directory))
		fail(directory);
	snprintf(bus, sizeof(bus), "%s/bus", directory);
	snprintf(configuration, sizeof(configuration), "%s/bus.conf", directory);
	snprintf(address_of_bus, sizeof(address_of_bus), "unix:path=%s", bus);
	write_text(configuration, text);
}

/* The launcher's child, once it is there. */
static pid_t broker_of(pid_t parent)
{
	char path[64], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	file = fopen(path, "re");
	if (file && !fgets(text, sizeof(text), file))
		*text = '\0';
	if (file)
		fclose(file);
	return (pid_t)strtol(text, NULL, 10);
}

pid_t rival_dbus_start(const char **ret_why)
{
	int listener;
	pid_t pid;

	configure();
	listener = bind_at(bus, SOCK_STREAM);
	listen(listener, BACKLOG);
	launcher = fork();
	if (launcher == 0)
		launch(listener);
	close(listener);
	while ((pid = broker_of(launcher)) == 0)
		if (waitpid(launcher, NULL, WNOHANG) != 0) {
			*ret_why = "dbus-broker does not start here";
			return 0;
		} else {
			usleep(10000);
		}
	return pid;
}

void rival_dbus_stop(void)
{
	finish(launcher, SIGTERM);
	unlink(bus);
	unlink(configuration);
	rmdir(directory);
	/* It is empty where it was made for this. */
	rmdir(JOURNAL);
}

/* --- messages --- */

static size_t put(uint8_t *message, size_t at, const void *bytes, size_t n)
{
	memcpy(message + at, bytes, n);
	return at + n;
}

static size_t put_u32(uint8_t *message, size_t at, uint32_t value)
{
	return put(message, at, &value, sizeof(value));
}

/* A header field with a string: the code, the signature of the variant, and that, aligned to eight bytes. */
static size_t put_field(uint8_t *message, size_t at, uint8_t code, char type, const char *text)
{
	while (at % 8)
		message[at++] = 0;
	at = put(message, at, (const uint8_t[]){ code, 1, (uint8_t)type, 0 }, 4);
	at = put_u32(message, at, (uint32_t)strlen(text));
	return put(message, at, text, strlen(text) + 1);
}

/* A call without arguments to the broker itself. */
static size_t make_call(uint8_t *message, const char *member)
{
	enum { FIELDS = 16 };
	size_t at = put(message, 0, (const uint8_t[]){ 'l', 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0 }, 12);

	at = put_u32(message, at, 0);
	at = put_field(message, at, 1, 'o', "/org/freedesktop/DBus");
	at = put_field(message, at, 2, 's', "org.freedesktop.DBus");
	at = put_field(message, at, 3, 's', member);
	at = put_field(message, at, 6, 's', "org.freedesktop.DBus");
	put_u32(message, 12, (uint32_t)(at - FIELDS));
	while (at % 8)
		message[at++] = 0;
	return at;
}

/* One message, or with the greeting two at once: a signal comes with a name. */
static void call(int socket, const char *member)
{
	uint8_t message[MESSAGE_MAX], answer[MESSAGE_MAX];
	size_t size = make_call(message, member);

	if (send(socket, message, size, MSG_NOSIGNAL) < 0 || recv(socket, answer, sizeof(answer), 0) <= 0)
		fail("dbus-broker");
}

int rival_dbus_connect(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	char text[96], digits[32];
	socklen_t length;
	size_t at;

	transport_address(bus, &address, &length);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		fail(bus);
	snprintf(digits, sizeof(digits), "%u", (unsigned)getuid());
	/* It begins with a NUL. */
	at = (size_t)snprintf(text + 1, sizeof(text) - 1, "AUTH EXTERNAL ") + 1;
	text[0] = '\0';
	for (const char *digit = digits; *digit; digit++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", (unsigned)*digit);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "\r\nBEGIN\r\n");
	if (send(fd, text, at, MSG_NOSIGNAL) < 0 || recv(fd, text, sizeof(text), 0) <= 0)
		fail("dbus-broker");
	call(fd, "Hello");
	/* What came behind the answer. */
	usleep(0);
	while (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	return fd;
}

void rival_dbus_trip(int socket)
{
	call(socket, "GetId");
}
