/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor, once a daemon has answered: registers an event, switches it on, writes a record and reads it back. */

#include <inttypes.h>
#include <poll.h>
#include <sys/mman.h>

#include "client/userevctl/doctor/doctor.h"
#include "client/userevctl/tracing/tracing.h"

#define TEST_EVENT	 "userevctl_doctor"
#define TEST_DESCRIPTION TEST_EVENT " u64 number"

enum { TRACE_TURNS = 100, TRACE_TURN_MS = 100 };

void doctor_check_page(struct doctor *doctor)
{
	size_t size = doctor->welcome.page_bytes;
	void *page = mmap(NULL, size, PROT_READ, MAP_SHARED, doctor->page, 0);

	if (page == MAP_FAILED) {
		finding(doctor, MARK_FAIL, "page", "Look for a denial in the kernel's log: 'journalctl -k'.",
			"the status page cannot be mapped: %s", strerror(errno));
		return;
	}
	if (mprotect(page, size, PROT_READ | PROT_WRITE) == 0)
		finding(doctor, MARK_NOTE, "page", "Please report this: it should not be possible.",
			"mapped, but it can be written from here");
	else
		finding(doctor, MARK_OK, "page", NULL, "mapped, readable, and read-only");
	munmap(page, size);
}

static const char quota_advice[] =
	"End programs of this tenant that hold many events, or ask the admin for more (--max-events).";

void doctor_check_registration(struct doctor *doctor)
{
	static const char refused[] = "the registration of a test event was refused";
	static const struct obstacle table[] = {
		{ -EACCES, "policy", refused,
		  "Policy forbids it: ask the admin to look at userevd's policy for this tenant." },
		{ -EDQUOT, "quota", refused, quota_advice },
		{ -ENOSPC, "policy", refused,
		  "The page or the machine is full: 'userevctl tenants' shows an admin which tenants hold events." },
		{ -EEXIST, "policy", refused,
		  "A program holds an event of the same name with other fields. Other events are not affected." },
		{ 0, "policy", refused, "Ask the admin to look at 'journalctl -u userevd'." },
	};
	int r;

	doctor->userev = userev_open(doctor->path, 0);
	r = doctor->userev ? userev_connected(doctor->userev) : -errno;
	if (r == 0)
		r = userev_register(doctor->userev, &doctor->event, TEST_DESCRIPTION, 0);
	doctor->registered = r == 0;
	if (r == 0)
		finding(doctor, MARK_OK, "policy", NULL, "a test event was registered");
	else
		finding_by_error(doctor, table, r,
				 *userev_refusal() ? safe_string(userev_refusal()).text : strerror(-r));
}

void doctor_check_quota(struct doctor *doctor)
{
	const struct wire_account *account = &doctor->account;
	uint32_t left = account->events_max - MIN(account->events, account->events_max);
	bool is_scarce = left < account->events_max / 10;

	finding(doctor, is_scarce ? MARK_NOTE : MARK_OK, "quota", is_scarce ? quota_advice : NULL,
		"this tenant holds %u of %s; %u of them linger, which means released, but still open in a process",
		account->events, plural(account->events_max, "event", "events").text, account->lingering);
}

/* Writes a record as soon as the test event is on, and reads records, as JSON, until it comes back. */
static int trace_record(struct doctor *doctor, struct tracing *tracing)
{
	static char *const names[] = { (char *)TEST_EVENT };
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	struct output output = { .file = must(open_memstream(&text, &size)), .json = true };
	struct record_view view = { .output = &output };
	struct pollfd readable = { .events = POLLIN };
	uint64_t number = ctl_now_ns();
	const char *trouble = "the event is off in the status page";
	char wanted[64];
	ssize_t written = 0;
	int r;

	snprintf(wanted, sizeof(wanted), "\"number\":%" PRIu64 "}", number);
	tracing->patterns = names;
	tracing->n_patterns = ARRAY_SIZE(names);
	r = tail_begin(tracing, 0);
	readable.fd = tracing->fd;
	for (int turns = 0; r == EXIT_DONE && trouble && written >= 0 && !tracing->over && turns < TRACE_TURNS;
	     turns++) {
		/* With another tracer the event is on before the daemon has answered this one. */
		if (turns > 0 && written == 0 && userev_enabled(&doctor->event)) {
			written = userev_write(&doctor->event, &number, sizeof(number));
			trouble = written < 0 ? strerror((int)-written) : "it was written";
		}
		if (poll(&readable, 1, TRACE_TURN_MS) >= 0)
			r = tail_read(tracing, &view);
		if (text && strstr(text, wanted))
			trouble = NULL;
	}
	fclose(output.file);
	if (r == EXIT_DONE && trouble)
		finding(doctor, MARK_FAIL, "record",
			"Do --socket and --control-socket belong to the same daemon? If so, please report this, with the daemon's "
			"version.",
			"a record of the test event did not come back: %s", trouble);
	else if (r == EXIT_DONE)
		finding(doctor, MARK_OK, "record", NULL, "one was written from here, and came back");
	return r;
}

void doctor_check_record(struct doctor *doctor)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	const char *obstacle = NULL;
	int r;

	if (!doctor->registered)
		obstacle = "there is no event to write it to";
	else if (!doctor->status.at)
		obstacle = "only admins see records";
	else if (doctor->welcome.backend != BACKEND_EMBEDDED && geteuid() != 0)
		obstacle = "tracing is for root";
	if (obstacle) {
		finding(doctor, MARK_SKIP, "record", NULL, "not tried: %s", obstacle);
		return;
	}
	r = tracing_open(doctor->ctl, TRACING_ACT, &tracing);
	if (r == EXIT_DONE)
		r = trace_record(doctor, tracing);
	if (r != EXIT_DONE)
		finding(doctor, MARK_FAIL, "record", "See the messages on stderr.", "it could not be traced");
}

void doctor_check_losses(struct doctor *doctor)
{
	const struct wire_account *account = &doctor->account;
	bool none = account->lost == 0 && account->bad == 0;

	finding(doctor, none ? MARK_OK : MARK_NOTE, "losses",
		none ? NULL
		     : "Records are lost if they come faster than they are read: trace fewer events at once. A bad one does not "
		       "fit its description: 'userevctl events' shows an admin which.",
		"this tenant has lost %s; %s bad", plural(account->lost, "record", "records").text,
		plural(account->bad, "is", "are").text);
}
