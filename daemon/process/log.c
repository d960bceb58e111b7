/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>

#include "protocol/base/text.h"

/* Stable, so that `journalctl MESSAGE_ID=…` finds every refusal there ever was. */
#define MESSAGE_ID_REFUSAL "MESSAGE_ID=4f0d1f1c1e7c4c2f9b6a3d5e8a7720b1"

enum { LINES_BURST = 50, LINES_PER_SECOND = 10 };

static struct {
	int level;
	bool journal;
	bool colours;
} log_to = { .level = LOG_INFO };

/* $JOURNAL_STREAM, set by systemd, has the device and inode of the journal's stream. */
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

/*
 * Rate limit of lines that clients can cause: fifty at once and ten a second neither fill the disk nor make the journal drop the
 * lines of other programs.
 */
static bool log_may_write(enum log_source source, int level)
{
	static struct bucket {
		double tokens;
		double since;
		unsigned long suppressed;
	} buckets[LOG_SOURCES] = { { .tokens = LINES_BURST }, { .tokens = LINES_BURST } };
	struct bucket *bucket = &buckets[source];
	struct timespec now;
	unsigned long suppressed;
	double seconds;

	if (level != LOG_WARNING && level != LOG_NOTICE)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	bucket->tokens = MIN(bucket->tokens + (seconds - bucket->since) * LINES_PER_SECOND, LINES_BURST);
	bucket->since = seconds;
	if (bucket->tokens < 1) {
		bucket->suppressed++;
		return false;
	}
	bucket->tokens--;
	suppressed = bucket->suppressed;
	bucket->suppressed = 0;
	if (suppressed)
		log_info("%lu lines were suppressed by the rate limit", suppressed);
	return true;
}

static void log_to_stderr(int level, const char *message)
{
	const char *colour = !log_to.colours	    ? ""
			     : level <= LOG_ERR	    ? "\033[31m"
			     : level <= LOG_WARNING ? "\033[33m"
						    : "";

	fprintf(stderr, "%suserevd: %s%s\n", colour, message, *colour ? "\033[0m" : "");
}

/* Names of programs and cgroups may contain control characters for an admin's terminal. */
static void log_make_safe(char *safe, size_t size, const char *format, va_list arguments)
{
	struct text text = text_make(safe, size);
	char raw[1024];

	vsnprintf(raw, sizeof(raw), format, arguments);
	text_safe(&text, raw, strlen(raw));
}

void log_line(enum log_source source, int level, const char *format, ...)
{
	char message[2048];
	va_list arguments;

	if (level > log_to.level || !log_may_write(source, level))
		return;
	va_start(arguments, format);
	log_make_safe(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (!log_to.journal || sd_journal_send("PRIORITY=%d", level, "MESSAGE=%s", message, NULL) < 0)
		log_to_stderr(level, message);
}

static void log_refusal_line(const char *tenant, const char *event, const char *reason, const char *message, ...)
{
	char safe[2048];
	va_list arguments;

	va_start(arguments, message);
	log_make_safe(safe, sizeof(safe), message, arguments);
	va_end(arguments);
	if (!log_to.journal ||
	    sd_journal_send("PRIORITY=%d", LOG_NOTICE, "MESSAGE=%s", safe, MESSAGE_ID_REFUSAL, "USEREVD_TENANT=%s",
			    tenant, "USEREVD_EVENT=%s", event, "USEREVD_REASON=%s", reason, NULL) < 0)
		log_to_stderr(LOG_NOTICE, safe);
}

void log_refusal(enum log_source source, const char *tenant, const char *event, const char *reason,
		 const char *sentence, uint64_t more)
{
	char before[48] = "";

	if (LOG_NOTICE > log_to.level || !log_may_write(source, LOG_NOTICE))
		return;
	tenant = tenant ? tenant : "unknown";
	if (more > 0)
		snprintf(before, sizeof(before), " (and %" PRIu64 " more before)", more);
	log_refusal_line(tenant, event ? event : "", reason, "tenant %s%s%s refused (%s)%s: %s", tenant,
			 event ? ": " : "", event ? event : "", reason, before, sentence);
}
