/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor, once a daemon has welcomed it: an event is registered, switched on, written and seen. */

#include <inttypes.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "client/userevctl/doctor/doctor.h"
#include "client/userevctl/tracing/tracer.h"

#define TEST_EVENT	 "userevctl_doctor"
#define TEST_DESCRIPTION TEST_EVENT " u64 number"

enum { TRACE_TURNS = 30, TRACE_TURN_MS = 100 };

void doctor_check_page(struct doctor *doctor)
{
	size_t size = doctor->greeting.welcome.page_bytes;
	int fd = doctor->greeting.page;
	const volatile uint8_t *page;
	void *writable;

	if (fd < 0 || size < 1 || size > WIRE_PAGE_BYTES) {
		finding(&doctor->findings, MARK_FAIL, "page", "Compare the versions: 'userevctl version'.",
			"the daemon sent no status page");
		return;
	}
	page = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		finding(&doctor->findings, MARK_FAIL, "page", "Look for a denial in the kernel's log: 'journalctl -k'.",
			"the status page cannot be mapped: %s", strerror(errno));
		return;
	}
	writable = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (writable != MAP_FAILED)
		finding(&doctor->findings, MARK_NOTE, "page", "Please report this: it should not be possible.",
			"mapped, but it can be written from here");
	else if (page[0] & 1)
		finding(&doctor->findings, MARK_FAIL, "page", "Please report this, with the daemon's version.",
			"mapped, but its bit 0 is set, which is never used");
	else
		finding(&doctor->findings, MARK_OK, "page", NULL, "mapped, readable, and read-only");
	munmap((void *)page, size);
	if (writable != MAP_FAILED)
		munmap(writable, size);
}

static const char *registration_advice(int error)
{
	switch (error) {
	case -EACCES:
		return "Policy forbids it: ask the admin to look at userevd's policy for this tenant.";
	case -EDQUOT:
		return "Let programs of this tenant that hold many events end, or ask the admin for more (--max-events).";
	case -ENOSPC:
		return "The page or the machine is full: 'userevctl tenants' tells an admin who holds how many.";
	case -EEXIST:
		return "Somebody holds an event of the same name with other fields. That is odd, but no obstacle to others.";
	default:
		return "Ask the admin to look at 'journalctl -u userevd'.";
	}
}

void doctor_check_registration(struct doctor *doctor)
{
	int r;

	doctor->userev = userev_open(doctor->path, 0);
	r = doctor->userev ? userev_connected(doctor->userev) : -errno;
	if (r < 0) {
		finding(&doctor->findings, MARK_FAIL, "policy", NULL, "the library cannot connect: %s", strerror(-r));
		return;
	}
	r = userev_register(doctor->userev, &doctor->event, TEST_DESCRIPTION, 0);
	if (r < 0) {
		doctor->over_quota = r == -EDQUOT;
		if (doctor_find_unguarded_root(doctor, userev_refusal()))
			return;
		finding(&doctor->findings, MARK_FAIL, r == -EDQUOT ? "quota" : "policy", registration_advice(r),
			"the registration of a test event was refused: %s", make_safe(userev_refusal()).text);
		return;
	}
	doctor->registered = true;
	finding(&doctor->findings, MARK_OK, "policy", NULL, "a test event was registered");
}

void doctor_check_quota(struct doctor *doctor)
{
	const struct wire_account *account = &doctor->greeting.account;
	uint32_t left = account->events_max - MIN(account->events, account->events_max);
	bool is_scarce = left < account->events_max / 10;
	char lingering[128] = "";

	/* The daemon's own sentence has said it. */
	if (doctor->over_quota)
		return;
	if (account->lingering > 0)
		snprintf(lingering, sizeof(lingering), "; %s, held by a program that has released it",
			 plural(account->lingering, "lingers", "linger").text);
	finding(&doctor->findings, is_scarce ? MARK_NOTE : MARK_OK, "quota",
		is_scarce ? registration_advice(-EDQUOT) : NULL, "this tenant holds %u of %s%s", account->events,
		plural(account->events_max, "event", "events").text, lingering);
}

/* Reads until SYNCED; whether our record was among the rows. A negative errno. */
static int find_record(struct control *control, uint64_t number)
{
	struct row_field payload;
	struct message message;
	struct cursor rows, row;
	uint16_t count;
	bool found = false;
	int r;

	for (;;) {
		r = control_receive(control, CONTROL_PATIENCE_MS, &message);
		if (r < 0 || message.kind == KIND_SYNCED)
			return r < 0 ? r : found;
		if (message.kind != KIND_ROWS || decode_rows(message.body, &count, &rows) != 0)
			return -EBADMSG;
		while (rows_next(&rows, &row))
			if (row_find(row, "payload", &payload) && payload.length == sizeof(number) &&
			    memcmp(payload.value, &number, sizeof(number)) == 0)
				found = true;
	}
}

/* Switches the test event on, and waits until that is so. */
static int start_tail(struct control *control)
{
	static const char *const names[] = { TEST_EVENT };
	struct message message;
	int r = control_ask_strings(control, KIND_TAIL, 0, names, ARRAY_SIZE(names));

	return r < 0 ? r : control_receive(control, CONTROL_PATIENCE_MS, &message);
}

static void explain_tail(struct doctor *doctor, int error)
{
	if (error == -EREMOTEIO && doctor->control->refusal == REFUSAL_NOT_THE_TRACER)
		finding(&doctor->findings, MARK_SKIP, "record", NULL, "not tried: %s", doctor->control->sentence);
	else
		finding(&doctor->findings, MARK_FAIL, "record", "Look why: 'journalctl -u userevd'.",
			"records cannot be read: %s",
			error == -EREMOTEIO ? doctor->control->sentence : strerror(-error));
}

/* Writes a record with a number of its own. */
static bool write_record(struct doctor *doctor, uint64_t *ret_number)
{
	uint64_t number = 0;
	ssize_t written;

	if (!userev_enabled(&doctor->event)) {
		finding(&doctor->findings, MARK_FAIL, "record",
			"Do --socket and --control-socket belong to the same daemon?",
			"the test event was switched on, but the status page does not say so");
		return false;
	}
	if (getrandom(&number, sizeof(number), 0) < 0)
		number = (uint64_t)getpid();
	written = userev_write(&doctor->event, &number, sizeof(number));
	if (written != sizeof(number)) {
		finding(&doctor->findings, MARK_FAIL, "record", "Look why: 'journalctl -u userevd'.",
			"a record could not be written: %s", written < 0 ? strerror((int)-written) : "nobody takes it");
		return false;
	}
	*ret_number = number;
	return true;
}

static void tell_record(struct doctor *doctor, bool found)
{
	finding(&doctor->findings, found ? MARK_OK : MARK_FAIL, "record",
		found ? NULL : "Please report this, with the daemon's version.",
		found ? "one was written from here, and came back" : "one was written from here, but did not arrive");
}

static void check_record_of_daemon(struct doctor *doctor)
{
	uint64_t number;
	int r;

	r = start_tail(doctor->control);
	if (r < 0) {
		explain_tail(doctor, r);
		return;
	}
	if (!write_record(doctor, &number))
		return;
	r = control_ask(doctor->control, KIND_SYNC);
	if (r == 0)
		r = find_record(doctor->control, number);
	if (r < 0)
		explain_tail(doctor, r);
	else
		tell_record(doctor, r > 0);
}

/* Reads what was recorded, as JSON, until the number is there or time is up. */
static int find_traced(struct tracing *tracing, uint64_t number, bool *ret_found)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	struct output output = { .file = open_memstream(&text, &size), .json = true };
	struct record_view view = { .output = &output };
	char wanted[64];
	int r = output.file ? EXIT_DONE : EXIT_REFUSED;

	snprintf(wanted, sizeof(wanted), "\"number\":%" PRIu64 "}", number);
	*ret_found = false;
	for (int turns = 0; r == EXIT_DONE && !*ret_found && !tracing->over && turns < TRACE_TURNS; turns++) {
		struct pollfd readable = { .fd = tracing->fd, .events = POLLIN };

		poll(&readable, 1, TRACE_TURN_MS);
		r = tracing->ops->tail_read(tracing, &view);
		*ret_found = text && strstr(text, wanted);
	}
	record_view_deinit(&view);
	if (output.file)
		fclose(output.file);
	return r;
}

static int trace_record(struct doctor *doctor, struct tracing *tracing)
{
	static char *const names[] = { (char *)TEST_EVENT };
	const struct tail_wish wish = { .patterns = names, .n = ARRAY_SIZE(names) };
	uint64_t number;
	bool found;
	int r;

	r = tracing->ops->tail_begin(tracing, &wish);
	if (r != EXIT_DONE || !write_record(doctor, &number))
		return r;
	r = find_traced(tracing, number, &found);
	if (r == EXIT_DONE)
		tell_record(doctor, found);
	return r;
}

/* As any tracer does it. */
static void check_record_of_kernel(struct doctor *doctor)
{
	struct tracing *tracing = NULL;
	int stopped, r;

	if (geteuid() != 0) {
		finding(&doctor->findings, MARK_SKIP, "record", NULL, "not tried: tracing is for root");
		return;
	}
	r = tracing_open(doctor->ctl, TRACING_ACT, &tracing);
	if (r == EXIT_DONE)
		r = trace_record(doctor, tracing);
	if (r != EXIT_DONE)
		finding(&doctor->findings, MARK_FAIL, "record", "Look at what was said on stderr.",
			"it could not be traced");
	stopped = tracing ? tracing->signal : 0;
	tracing_free(tracing);
	if (stopped > 0)
		raise(stopped);
}

void doctor_check_record(struct doctor *doctor)
{
	if (!doctor->control || !doctor->registered)
		finding(&doctor->findings, MARK_SKIP, "record", NULL, "not tried: %s",
			doctor->registered ? "only admins see records" : "there is no event to write it to");
	else if (doctor->greeting.welcome.backend == BACKEND_EMBEDDED)
		check_record_of_daemon(doctor);
	else
		check_record_of_kernel(doctor);
}

void doctor_check_losses(struct doctor *doctor)
{
	const struct wire_account *account = &doctor->greeting.account;

	if (account->lost == 0 && account->bad == 0)
		finding(&doctor->findings, MARK_OK, "losses", NULL, "this tenant has lost no record");
	if (account->lost > 0)
		finding(&doctor->findings, MARK_NOTE, "losses",
			"They came faster than they were taken: trace fewer events at once.", "%s of this tenant lost",
			plural(account->lost, "record is", "records are").text);
	if (account->bad > 0)
		finding(&doctor->findings, MARK_NOTE, "bad records",
			"A program writes payloads that do not fit its descriptions: 'userevctl events' tells an admin which.",
			"%s of this tenant", plural(account->bad, "record", "records").text);
}
