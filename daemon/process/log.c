/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/log.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "daemon/process/bucket.h"
#include "daemon/process/clock.h"
#include "protocol/base/text.h"

/* Stable, so that `journalctl MESSAGE_ID=…` finds every refusal there ever was. */
#define MESSAGE_ID_REFUSAL "MESSAGE_ID=4f0d1f1c1e7c4c2f9b6a3d5e8a7720b1"

enum { LINES_BURST = 50, LINES_PER_SECOND = 10 };

static struct {
	int level;
	bool journal;
	bool stream; /* stderr is one of the journal's */
	bool colours;
} log_to = { .level = LOG_INFO };

void log_open(int level, bool journal)
{
	/* Set by systemd: the device and inode of the journal's stream, which stderr may be. */
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t device, inode;
	struct stat status;

	log_to.stream = stream && sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) == 2 &&
			fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
	log_to.level = level;
	log_to.journal = journal || log_to.stream;
	log_to.colours = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
}

/*
 * Rate limit of lines that clients can cause: fifty at once and ten a second neither fill the disk nor make the journal drop the
 * lines of other programs.
 */
static bool log_may_write(enum log_source source, int level)
{
	static struct bucket buckets[LOG_SOURCES] = { { .rate = LINES_PER_SECOND, LINES_BURST, LINES_BURST },
						      { .rate = LINES_PER_SECOND, LINES_BURST, LINES_BURST } };
	static unsigned long suppressed[LOG_SOURCES];

	if (level != LOG_WARNING && level != LOG_NOTICE)
		return true;
	if (bucket_tokens(&buckets[source], clock_now()) == 0) {
		suppressed[source]++;
		return false;
	}
	bucket_take(&buckets[source], clock_now());
	if (suppressed[source])
		log_info("%lu lines were suppressed by the rate limit", suppressed[source]);
	suppressed[source] = 0;
	return true;
}

/*
 * Loads libsystemd for the first entry that has fields of its own: with the libraries that it needs it is a third of an idle daemon's
 * memory. NULL: it can't be loaded now.
 */
static __typeof__(sd_journal_send) *journal_load(void)
{
	static __typeof__(sd_journal_send) *send;
	void *library = send ? NULL : dlopen("libsystemd.so.0", RTLD_NOW);

	if (library)
		*(void **)&send = dlsym(library, "sd_journal_send");
	return send;
}

static void log_to_stderr(int level, const char *message)
{
	const char *colour = !log_to.colours	    ? ""
			     : level <= LOG_ERR	    ? "\033[31m"
			     : level <= LOG_WARNING ? "\033[33m"
						    : "";

	if (log_to.stream)
		fprintf(stderr, "<%d>%s\n", level, message);
	else
		fprintf(stderr, "%suserevd: %s%s\n", colour, message, *colour ? "\033[0m" : "");
}

void log_line(enum log_source source, int level, const char *format, ...)
{
	__typeof__(sd_journal_send) *send = NULL;
	char raw[1024], message[2048];
	struct text text = text_make(message, sizeof(message));
	va_list arguments;

	if (level > log_to.level || !log_may_write(source, level))
		return;
	va_start(arguments, format);
	vsnprintf(raw, sizeof(raw), format, arguments);
	va_end(arguments);
	/* Names of programs and cgroups may contain control characters for an admin's terminal. */
	text_safe(&text, raw, strlen(raw));
	if (log_to.journal && !log_to.stream)
		send = journal_load();
	if (!send || send("PRIORITY=%d", level, "MESSAGE=%s", message, NULL) < 0)
		log_to_stderr(level, message);
}

void log_refusal(enum log_source source, const char *tenant, const char *event, const char *reason,
		 const char *sentence, uint64_t more)
{
	__typeof__(sd_journal_send) *send;
	char before[48] = "", raw[1024], safe[2048];
	struct text text = text_make(safe, sizeof(safe));

	if (LOG_NOTICE > log_to.level || !log_may_write(source, LOG_NOTICE))
		return;
	tenant = tenant ? tenant : "unknown";
	if (more > 0)
		snprintf(before, sizeof(before), " (and %" PRIu64 " more before)", more);
	snprintf(raw, sizeof(raw), "tenant %s%s%s refused (%s)%s: %s", tenant, event ? ": " : "", event ? event : "",
		 reason, before, sentence);
	text_safe(&text, raw, strlen(raw));
	send = log_to.journal ? journal_load() : NULL;
	if (!send || send("PRIORITY=%d", LOG_NOTICE, "MESSAGE=%s", safe, MESSAGE_ID_REFUSAL, "USEREVD_TENANT=%s",
			  tenant, "USEREVD_EVENT=%s", event ? event : "", "USEREVD_REASON=%s", reason, NULL) < 0)
		log_to_stderr(LOG_NOTICE, safe);
}
