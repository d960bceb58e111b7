/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A journald of a namespace of its own, so that nothing of this machine's journal is touched. */

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

#define DIRECTORY "/run/systemd/journal.userevd-bench"

static pid_t journald;
static int journal = -1;

static bool dial_journal(void)
{
	struct sockaddr_un address;
	socklen_t length;

	transport_address(DIRECTORY "/socket", &address, &length);
	journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (connect(journal, (struct sockaddr *)&address, length) == 0)
		return true;
	close(journal);
	return false;
}

bool rival_journal_start(const char **ret_why)
{
	const char *argv[] = { "/lib/systemd/systemd-journald", "userevd-bench", NULL };

	*ret_why = "to start a journald takes root";
	if (geteuid() != 0)
		return false;
	*ret_why = "systemd-journald does not start here";
	journald = start(argv, NULL);
	for (unsigned i = 0; i < 100; i++) {
		if (dial_journal())
			return true;
		usleep(50000);
	}
	finish(journald, SIGKILL);
	return false;
}

bool rival_journal_write(uint32_t turn, uint64_t cost)
{
	char entry[128];
	int size =
		snprintf(entry, sizeof(entry), "MESSAGE=turned\nTURN=%u\nCOST=%llu\n", turn, (unsigned long long)cost);

	return send(journal, entry, (size_t)size, MSG_NOSIGNAL) == size;
}

void rival_journal_stop(void)
{
	const char *argv[] = { "rm", "-rf", DIRECTORY, NULL };

	close(journal);
	finish(journald, SIGTERM);
	run(argv);
}
