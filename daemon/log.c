/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "protocol/text.h"

/* Stable, so that `journalctl MESSAGE_ID=…` finds every refusal there ever was. */
#define MESSAGE_ID_REFUSAL "MESSAGE_ID=4f0d1f1c1e7c4c2f9b6a3d5e8a7720b1"

static struct {
	int level;
	bool journal;
	bool colours;
} log_to = { .level = LOG_INFO };

static const char *const level_names[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };

int log_level_from_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
		if (streq(name, level_names[i]))
			return (int)i;
	return -EINVAL;
}

/* systemd says in $JOURNAL_STREAM which device and inode the stderr is that it gave us. */
static bool stderr_is_the_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t device, inode;
	struct stat status;

	if (!stream || sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) != 2)
		return false;
	return fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void log_open(int level, bool journal)
{
	log_to.level = level;
	log_to.journal = journal || stderr_is_the_journal();
	log_to.colours = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
}

/* Names of programs and cgroups are their owners' choice, and must not drive an admin's terminal. */
static void make_printable(char *message)
{
	for (; *message; message++)
		if ((unsigned char)*message < ' ' || *message == '\177')
			*message = '?';
}

static void to_stderr(int level, const char *message)
{
	const char *colour = !log_to.colours	    ? ""
			     : level <= LOG_ERR	    ? "\033[31m"
			     : level <= LOG_WARNING ? "\033[33m"
						    : "";

	fprintf(stderr, "%suserevd: %s%s\n", colour, message, *colour ? "\033[0m" : "");
}

void log_line(int level, const char *format, ...)
{
	char message[1024];
	va_list arguments;

	if (level > log_to.level)
		return;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	make_printable(message);
	if (!log_to.journal || sd_journal_send("PRIORITY=%d", level, "MESSAGE=%s", message, NULL) < 0)
		to_stderr(level, message);
}

void log_refusal(const char *tenant, const char *event, const char *reason, const char *sentence)
{
	char message[1024], safe[512];
	struct text name = text_make(safe, sizeof(safe));

	if (LOG_NOTICE > log_to.level)
		return;
	text_safe(&name, event ? event : "", event ? strlen(event) : 0);
	snprintf(message, sizeof(message), "tenant %s%s%s refused (%s): %s", tenant ? tenant : "unknown",
		 event ? ": " : "", safe, reason, sentence);
	make_printable(message);
	if (!log_to.journal ||
	    sd_journal_send("PRIORITY=%d", LOG_NOTICE, "MESSAGE=%s", message, MESSAGE_ID_REFUSAL, "USEREVD_TENANT=%s",
			    tenant ? tenant : "", "USEREVD_EVENT=%s", safe, "USEREVD_REASON=%s", reason, NULL) < 0)
		to_stderr(LOG_NOTICE, message);
}
