/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/fixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "protocol/base/text.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

enum { OPTIONS_MAX = 24 };

static pid_t start_daemon(const struct fixture *fixture, const char *const *options, int ready)
{
	char socket[128], control[128], policy[128];
	const char *all[OPTIONS_MAX] = {
		socket, control, policy, "--ready-fd=3", "--foreground", "--log-level=debug", "--exit-with-parent"
	};

	snprintf(socket, sizeof(socket), "--socket=%s", fixture->socket);
	snprintf(control, sizeof(control), "--control-socket=%s", fixture->control);
	snprintf(policy, sizeof(policy), "--policy=%s", fixture->directory);
	for (size_t n = 7; options && *options && n < OPTIONS_MAX - 1; n++)
		all[n] = *options++;
	return start_program("userevd", fixture->log, all, &ready, 1, NULL);
}

void fixture_print_log(const struct fixture *fixture)
{
	FILE *file = fopen(fixture->log, "re");
	char line[1024];

	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "    daemon: %s", line);
	if (file)
		fclose(file);
}

static void take_backend(void *data, struct cursor row)
{
	struct fixture *fixture = data;
	char name[32], guard[8];

	row_get_string(row, "backend", name, sizeof(name));
	row_get_string(row, "guard", guard, sizeof(guard));
	fixture->backend = streq(name, "enable-address") ? BACKEND_ENABLE_ADDRESS
			   : streq(name, "status-page")	 ? BACKEND_STATUS_PAGE
							 : BACKEND_EMBEDDED;
	fixture->guarded = streq(guard, "on");
}

void fixture_read_backend(struct fixture *fixture)
{
	ask_rows(fixture, KIND_STATUS, take_backend, fixture);
}

/* The first three are counted in /proc, the others are numbers of STATUS. */
enum { COUNTED_IN_PROC = 3 };

static const struct {
	const char *name;
	size_t at;
} tally_fields[] = {
	{ "fds", offsetof(struct tally, fds) },		  { "keeper_fds", offsetof(struct tally, keeper_fds) },
	{ "enablers", offsetof(struct tally, enablers) }, { "connections", offsetof(struct tally, connections) },
	{ "tenants", offsetof(struct tally, tenants) },	  { "events", offsetof(struct tally, events) },
	{ "leases", offsetof(struct tally, leases) },	  { "lingering", offsetof(struct tally, lingering) },
	{ "streams", offsetof(struct tally, streams) },	  { "charges", offsetof(struct tally, charges) },
};

static uint64_t *tally_number(const struct tally *tally, size_t i)
{
	return (uint64_t *)((uintptr_t)tally + tally_fields[i].at);
}

static void read_status(void *data, struct cursor row)
{
	for (size_t i = COUNTED_IN_PROC; i < ARRAY_SIZE(tally_fields); i++)
		*tally_number(data, i) = row_get_u64(row, tally_fields[i].name);
}

static void take_tally(const struct fixture *fixture, int control, struct tally *ret)
{
	*ret = (struct tally){ 0 };
	ck_assert_uint_eq(raw_rows(control, KIND_STATUS, 0, NULL, read_status, ret), 0);
	/* Counted while our own connection is open, so that it is the same each time. */
	ret->fds = count_fds(fixture->pid);
	if (fixture->keeper && is_running(fixture->keeper)) {
		ret->keeper_fds = count_fds(fixture->keeper);
		ret->enablers = children_of(fixture->keeper, NULL, NULL, 0);
	}
}

/* Over one connection: before Linux 6.16 another might be counted while it is being closed. */
static void look_at_daemon(struct fixture *fixture)
{
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, KIND_STATUS, 0, NULL, take_backend, fixture), 0);
	if (fixture->backend != BACKEND_EMBEDDED)
		ck_assert_uint_eq(children_of(fixture->pid, "userevd-keeper", &fixture->keeper, 1), 1);
	take_tally(fixture, control, &fixture->before);
	close(control);
}

bool keeps_records_itself(const struct fixture *fixture)
{
	return fixture->backend == BACKEND_EMBEDDED;
}

bool releases_at_once(const struct fixture *fixture)
{
	return fixture->backend == BACKEND_EMBEDDED;
}

bool has_a_page_per_tenant(const struct fixture *fixture)
{
	return fixture->backend != BACKEND_STATUS_PAGE;
}

bool offers_multi_format(const struct fixture *fixture)
{
	return fixture->backend == BACKEND_ENABLE_ADDRESS;
}

uint32_t refusal_to_persist(const struct fixture *fixture)
{
	return fixture->backend == BACKEND_ENABLE_ADDRESS ? REFUSAL_NOT_PERMITTED : REFUSAL_KERNEL_TOO_OLD;
}

bool has_enablers(const struct fixture *fixture)
{
	return fixture->backend == BACKEND_ENABLE_ADDRESS;
}

bool shares_streams(const struct fixture *fixture)
{
	return fixture->guarded;
}

uint64_t still_charged(const struct fixture *fixture, uint64_t charged, uint64_t released)
{
	return releases_at_once(fixture) ? charged - released : charged;
}

void fixture_write_policy(const struct fixture *fixture, const char *text)
{
	FILE *file = fopen(fixture->policy, "we");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

void fixture_start(struct fixture *fixture, const char *const *options)
{
	fixture_start_with_policy(fixture, "", options);
}

void fixture_prepare(struct fixture *fixture, const char *policy)
{
	*fixture = (struct fixture){ .events_before = read_events() };
	make_temporary_directory(fixture->directory, sizeof(fixture->directory));
	/* Other users' clients are tested too. */
	ck_assert_int_eq(chmod(fixture->directory, 0755), 0);
	snprintf(fixture->socket, sizeof(fixture->socket), "%s/userevd.sock", fixture->directory);
	snprintf(fixture->control, sizeof(fixture->control), "%s/control.sock", fixture->directory);
	snprintf(fixture->log, sizeof(fixture->log), "%s/log", fixture->directory);
	snprintf(fixture->policy, sizeof(fixture->policy), "%s/policy.conf", fixture->directory);
	fixture_write_policy(fixture, policy);
}

void fixture_launch(struct fixture *fixture, const char *const *options)
{
	char byte = 0;
	int ready[2];

	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	fixture->pid = start_daemon(fixture, options, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || byte != '\n') {
		fixture_print_log(fixture);
		ck_abort_msg("the daemon did not start");
	}
	close(ready[0]);
	look_at_daemon(fixture);
}

void fixture_start_with_policy(struct fixture *fixture, const char *policy, const char *const *options)
{
	fixture_prepare(fixture, policy);
	fixture_launch(fixture, options);
}

/* Describes anything of the daemon's that is left, or writes "". */
static void clean_up(struct fixture *fixture, bool with_events, char *ret, size_t size)
{
	struct text text = text_make(ret, size);
	char event[640];

	unlink(fixture->log);
	unlink(fixture->policy);
	unlink(fixture->socket);
	unlink(fixture->control);
	/* Pages of a keeper that was killed stay there. */
	rmdir(fixture->directory);
	if (fixture->keeper && !eventually(!is_running(fixture->keeper)))
		text_printf(&text, "the keeper has survived the daemon; ");
	for (size_t i = 0; i < fixture->n_enablers; i++)
		if (!eventually(!is_running(fixture->enablers[i])))
			text_printf(&text, "an enabler has survived the keeper; ");
	if (fixture->keeper && with_events)
		delete_new_events(fixture->events_before);
	if (fixture->keeper && !eventually(!find_new_event(fixture->events_before, event, sizeof(event))))
		text_printf(&text, "the kernel still has %s; ", event);
	free(fixture->events_before);
}

int fixture_end(struct fixture *fixture, pid_t victim, int signal)
{
	int status = -1;

	if (fixture->keeper)
		fixture->n_enablers =
			MIN(children_of(fixture->keeper, NULL, fixture->enablers, ARRAY_SIZE(fixture->enablers)),
			    ARRAY_SIZE(fixture->enablers));
	ck_assert_int_eq(kill(victim, signal), 0);
	ck_assert_int_eq(waitpid(fixture->pid, &status, 0), fixture->pid);
	fixture->pid = 0;
	return status;
}

void fixture_abandon(struct fixture *fixture)
{
	char left[256];

	tracer_stop(&fixture->tracer);
	/* A keeper that ends before its clients can't delete their events. */
	clean_up(fixture, fixture->backend == BACKEND_STATUS_PAGE, left, sizeof(left));
	ck_assert_msg(*left == '\0', "%s", left);
}

void fixture_stop(struct fixture *fixture)
{
	char difference[256], left[256];
	bool settled = tally_settles(fixture, &fixture->before, difference, sizeof(difference));
	int status;

	tracer_stop(&fixture->tracer);
	status = fixture_end(fixture, fixture->pid, SIGTERM);
	if (!settled || status != 0)
		fixture_print_log(fixture);
	ck_assert_msg(access(fixture->socket, F_OK) < 0, "the daemon left its socket behind");
	clean_up(fixture, false, left, sizeof(left));
	ck_assert_msg(settled, "the daemon did not come back to what it was: %s", difference);
	ck_assert_msg(status == 0, "the daemon ended with status %#x", (unsigned)status);
	ck_assert_msg(*left == '\0', "%s", left);
}

bool test_is_possible(const struct daemon_test *test)
{
	if (test->needs_root && !need_root(test->needs_root))
		return false;
	if (test->needs_guest && !is_guest())
		return not_possible(test->needs_guest);
	if (test->needs_kernel && access(TRACEFS "/user_events_status", R_OK) < 0)
		return not_possible(test->needs_kernel);
	if (test->needs_cgroups && !need_cgroups(test->needs_cgroups))
		return false;
	if (test->fds_max)
		limit_fds(test->fds_max);
	return true;
}

void fixture_run(const struct daemon_test *test, void (*body)(struct fixture *))
{
	struct fixture fixture;

	if (!test_is_possible(test))
		return;
	fixture_start_with_policy(&fixture, test->policy ? test->policy : "", test->options);
	body(&fixture);
	if (fixture.pid)
		fixture_stop(&fixture);
	else
		fixture_abandon(&fixture);
}

int fixture_client(const struct fixture *fixture)
{
	return raw_hello(fixture->socket, 0, NULL, NULL);
}

void fixture_expect_no_start(const struct fixture *fixture, const char *program, const char *option, const char *words)
{
	char output[2048], socket[160], control[160];
	const char *const argv[] = { program, "--foreground", option, socket, control, NULL };

	snprintf(socket, sizeof(socket), "--socket=%s/other.sock", fixture->directory);
	snprintf(control, sizeof(control), "--control-socket=%s/other-control.sock", fixture->directory);
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), argv), EXIT_FAILURE);
	ck_assert_msg(strstr(output, words), "%s", output);
}

void tally_take(const struct fixture *fixture, struct tally *ret)
{
	int control = raw_connect(fixture->control);

	take_tally(fixture, control, ret);
	close(control);
}

void tally_compare(const struct tally *before, const struct tally *after, char *ret, size_t size)
{
	struct text text = text_make(ret, size);

	for (size_t i = 0; i < ARRAY_SIZE(tally_fields); i++) {
		/* When it was counted first, the keeper may have had a file open for a call of the daemon's start. */
		bool is_less = tally_fields[i].at == offsetof(struct tally, keeper_fds) &&
			       *tally_number(after, i) < *tally_number(before, i);

		if (*tally_number(before, i) != *tally_number(after, i) && !is_less)
			text_printf(&text, "%s%s %" PRIu64 " → %" PRIu64, text.length ? ", " : "", tally_fields[i].name,
				    *tally_number(before, i), *tally_number(after, i));
	}
}

/* The keeper starts a spare process after less time. */
enum { REST_US = 200000 };

void tally_take_at_rest(const struct fixture *fixture, struct tally *ret)
{
	struct tally before;
	char difference[256];

	ck_assert(eventually((tally_take(fixture, &before), usleep(REST_US), tally_take(fixture, ret),
			      tally_compare(&before, ret, difference, sizeof(difference)), *difference == '\0')));
}

static bool tally_is(const struct fixture *fixture, const struct tally *before, char *ret, size_t size)
{
	struct tally now;

	tally_take(fixture, &now);
	tally_compare(before, &now, ret, size);
	return *ret == '\0';
}

bool tally_settles(const struct fixture *fixture, const struct tally *before, char *ret, size_t size)
{
	return eventually(tally_is(fixture, before, ret, size));
}

unsigned log_count(const struct fixture *fixture, const char *text)
{
	FILE *file = fopen(fixture->log, "re");
	char line[1024];
	unsigned n = 0;

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	fclose(file);
	return n;
}

bool log_has(const struct fixture *fixture, const char *text)
{
	return log_count(fixture, text) > 0;
}

void sync_records(const struct fixture *fixture)
{
	struct raw_reply reply;
	int control;

	if (!keeps_records_itself(fixture))
		return;
	control = raw_connect(fixture->control);
	raw_packet(KIND_SYNC);
	raw_ask(control, KIND_SYNCED, &reply);
	raw_reply_deinit(&reply);
	close(control);
}

void ask_rows(const struct fixture *fixture, uint16_t kind, void (*on_row)(void *data, struct cursor row), void *data)
{
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, kind, 0, NULL, on_row, data), 0);
	close(control);
}

struct number_wanted {
	const char *event; /* NULL: the first row counts */
	const char *key;
	bool found;
	uint64_t number;
};

static void read_number(void *data, struct cursor row)
{
	struct number_wanted *wanted = data;
	char name[256];

	row_get_string(row, "event", name, sizeof(name));
	if (wanted->found || (wanted->event && !streq(name, wanted->event)))
		return;
	wanted->found = true;
	wanted->number = row_get_u64(row, wanted->key);
}

static uint64_t ask_number(const struct fixture *fixture, uint16_t kind, const char *event, const char *key)
{
	struct number_wanted wanted = { .event = event, .key = key };

	ask_rows(fixture, kind, read_number, &wanted);
	return wanted.number;
}

uint64_t status_number(const struct fixture *fixture, const char *key)
{
	return ask_number(fixture, KIND_STATUS, NULL, key);
}

uint64_t tenant_number(const struct fixture *fixture, const char *key)
{
	return ask_number(fixture, KIND_TENANTS, NULL, key);
}

uint64_t event_number(const struct fixture *fixture, const char *event, const char *key)
{
	return ask_number(fixture, KIND_EVENTS, event, key);
}

struct numbers_wanted {
	char text[256];
	char difference[256];
	bool compared;
};

static uint64_t row_number(const void *row, const char *key)
{
	return row_get_u64(*(const struct cursor *)row, key);
}

static void compare_row(void *data, struct cursor row)
{
	struct numbers_wanted *wanted = data;

	if (!wanted->compared)
		numbers_compare(wanted->text, row_number, &row, wanted->difference, sizeof(wanted->difference));
	wanted->compared = true;
}

static bool numbers_are(const struct fixture *fixture, uint16_t kind, struct numbers_wanted *wanted)
{
	wanted->compared = false;
	ask_rows(fixture, kind, compare_row, wanted);
	return wanted->compared && *wanted->difference == '\0';
}

void expect_numbers(const struct fixture *fixture, uint16_t kind, uint64_t within_ms, const char *format, ...)
{
	uint64_t end = clock_us() + within_ms * 1000;
	struct numbers_wanted wanted = { 0 };
	va_list arguments;
	bool hold;

	va_start(arguments, format);
	vsnprintf(wanted.text, sizeof(wanted.text), format, arguments);
	va_end(arguments);
	while (!(hold = numbers_are(fixture, kind, &wanted)) && clock_us() < end)
		usleep(10000);
	ck_assert_msg(hold, "%s", wanted.difference);
}

void expect_settled(const struct fixture *fixture)
{
	char difference[256];

	ck_assert_msg(tally_settles(fixture, &fixture->before, difference, sizeof(difference)), "%s", difference);
}

static uint64_t wake_ups(const struct fixture *fixture)
{
	static const char key[] = "voluntary_ctxt_switches:";

	return proc_status(fixture->pid, key, 10) + (fixture->keeper ? proc_status(fixture->keeper, key, 10) : 0);
}

/* Without a guard they check all streams every ten seconds, for another reason. */
void expect_wake_ups(const struct fixture *fixture, uint64_t most)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 4 && least > most; i++) {
		uint64_t before = wake_ups(fixture);

		sleep(2);
		least = MIN(least, wake_ups(fixture) - before);
	}
	ck_assert_uint_le(least, most);
}

/* A row of the list in each row: of that in which `key` is `value` the number `wanted`. */
struct nested {
	const char *list, *key, *value, *wanted;
	uint64_t number;
};

static void read_nested(void *data, struct cursor row)
{
	struct nested *nested = data;
	struct row_field list;
	struct cursor items, item;
	char value[64];

	if (!row_find(row, nested->list, &list))
		return;
	items = cursor_make(list.value, list.length);
	while (row_next_item(&items, &item) > 0) {
		row_get_string(item, nested->key, value, sizeof(value));
		if (streq(value, nested->value))
			nested->number = row_get_u64(item, nested->wanted);
	}
}

uint64_t refusal_count(const struct fixture *fixture, const char *reason)
{
	struct nested nested = { .list = "refusals", .key = "reason", .value = reason, .wanted = "count" };

	ask_rows(fixture, KIND_TENANTS, read_nested, &nested);
	return nested.number;
}
