/* SPDX-License-Identifier: GPL-2.0-or-later */

/* status, version. */

#include <inttypes.h>

#include "client/userev.h"
#include "client/userevctl/show/show.h"

enum { TITLE_WIDTH = 9 };

static struct plural row_plural(struct cursor row, const char *key, const char *singular, const char *many)
{
	return plural(row_get_u64(row, key), singular, many);
}

static void print_title(const struct output *output, const char *title)
{
	fprintf(output->file, "%*s", (int)(TITLE_WIDTH - strlen(title)), "");
	output_styled(output, STYLE_BOLD, "%s:", title);
	putc(' ', output->file);
}

static void print_loss(const struct output *output, struct cursor row, const char *key, const char *name)
{
	uint64_t count = row_get_u64(row, key);

	fputs(", ", output->file);
	output_styled(output, count > 0 ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64 " %s", count, name);
}

static void print_daemon(const struct output *output, struct cursor row, bool kernel)
{
	static const struct {
		const char *title, *key;
		bool kernel_only;
	} lines[] = {
		{ "Backend", "backend", false },    { "Why", "why", false },
		{ "Clients", "socket", false },	    { "Admins", "control_socket", false },
		{ "Policy", "policy_note", false }, { "Guard", "guard", true },
		{ "Note", "note", true },
	};
	char uptime[64];

	humane_duration(row_get_u64(row, "uptime"), uptime, sizeof(uptime));
	print_title(output, "Daemon");
	fprintf(output->file, "userevd %s, pid %" PRIu64 ", up %s\n", row_string(row, "version").text,
		row_get_u64(row, "pid"), uptime);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct safe_string text = row_string(row, lines[i].key);

		if (!text.text[0] || (lines[i].kernel_only && !kernel))
			continue;
		print_title(output, lines[i].title);
		output_styled(output, i == 0 ? STYLE_NAME : STYLE_PLAIN, "%s", text.text);
		putc('\n', output->file);
	}
}

/* Since Linux 6.5. */
static bool read_events_max(uint64_t *ret)
{
	FILE *file = fopen("/proc/sys/kernel/user_events_max", "re");
	bool known = file && fscanf(file, "%" SCNu64, ret) == 1;

	if (file)
		fclose(file);
	return known;
}

static void print_numbers(const struct output *output, const struct tracing *tracing)
{
	uint64_t events_max, foreign = tracing->events.foreign;
	struct cursor row = tracing->status;
	FILE *file = output->file;

	if (tracing->kernel) {
		print_title(output, "Tracefs");
		fprintf(file, "%s; ", safe_string(tracing->place).text);
		if (read_events_max(&events_max))
			fprintf(file, "the kernel takes %s (user_events_max); ",
				plural(events_max, "event", "events").text);
		fprintf(file, "%s\n",
			foreign == 0 ? "none is foreign"
				     : plural(foreign, "event is foreign", "events are foreign").text);
	}
	print_title(output, "Tenants");
	fprintf(file, "%s, %s", row_plural(row, "tenants", "tenant", "tenants").text,
		row_plural(row, "connections", "connection", "connections").text);
	if (row_get_u64(row, "in_flight") > 0)
		fprintf(file, "; %s in flight", row_plural(row, "in_flight", "fd", "fds").text);
	putc('\n', file);
	print_title(output, "Events");
	fprintf(file, "%s, held %s, on %s; %s\n", row_plural(row, "events", "event", "events").text,
		row_plural(row, "leases", "time", "times").text, row_plural(row, "streams", "stream", "streams").text,
		row_get_u64(row, "lingering") == 0 ? "none lingers"
						   : row_plural(row, "lingering", "lingers", "linger").text);
	print_title(output, "Room");
	fprintf(file, "%" PRIu64 " of %s used; a page has %s, a record at most %s\n", row_get_u64(row, "charges"),
		row_plural(row, "capacity", "event", "events").text, row_plural(row, "page_bits", "bit", "bits").text,
		row_plural(row, "payload_max", "byte", "bytes").text);
	print_title(output, "Records");
	if (tracing->kernel) {
		fputs("recorded by the kernel's tracers", file);
	} else {
		fprintf(file, "%" PRIu64 " recorded", row_get_u64(row, "records"));
		print_loss(output, row, "bad", "bad");
	}
	print_loss(output, row, "lost", "lost");
	print_loss(output, row, "too_big", "too big");
	putc('\n', file);
}

static void print_status_json(const struct output *output, const struct tracing *tracing)
{
	struct json json = { .file = output->file };
	uint64_t events_max;

	json_begin(&json, '{');
	json_row_fields(&json, tracing->status);
	if (tracing->kernel)
		json_put(&json, json_text("tracefs", tracing->place), json_u64("foreign", tracing->events.foreign));
	if (tracing->kernel && read_events_max(&events_max))
		json_put(&json, json_u64("user_events_max", events_max));
	json_put_key(&json, "event_list");
	events_print_json(tracing, &json);
	json_end_line(&json, '}');
}

static int status_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	const struct output *output = &ctl->output;
	int r;

	options_read(ctl, NULL, 0, 0);
	r = tracing_open(ctl, TRACING_LOOK_AT_DAEMON, &tracing);
	if (r == EXIT_DONE)
		r = tracing_look(tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = FOREIGN_ALL;
	if (output->json) {
		print_status_json(output, tracing);
		return ctl_finish(ctl);
	}
	print_daemon(output, tracing->status, tracing->kernel);
	print_numbers(output, tracing);
	if (row_get_u64(tracing->status, "events") > 0 || tracing->events.foreign > 0)
		putc('\n', output->file);
	events_print(tracing, true);
	return ctl_finish(ctl);
}

static int version_run(struct ctl *ctl)
{
	const struct output *output = &ctl->output;
	struct safe_string version, backend;
	struct cursor row = { 0 };
	bool reachable;

	options_read(ctl, NULL, 0, 0);
	reachable = control_ask_status(ctl->control_socket, CONTROL_TIMEOUT_MS, &row) == 0;
	version = row_string(row, "version");
	backend = row_string(row, "backend");
	free((void *)row.at);
	if (output->json) {
		json_print(output->file, json_text("userevctl", VERSION), json_text("libuserev", userev_version()),
			   json_text("userevd", reachable ? version.text : NULL),
			   json_text("backend", reachable ? backend.text : NULL));
		return ctl_finish(ctl);
	}
	fprintf(output->file, "userevctl %s\nlibuserev %s\n", VERSION, userev_version());
	if (reachable)
		fprintf(output->file, "userevd %s (%s)\n", version.text, backend.text);
	else
		fprintf(output->file, "userevd: not reachable at %s\n", ctl->control_socket);
	return ctl_finish(ctl);
}

COMMAND(status, "", "the daemon: backend, numbers and losses", NULL,
	"Shows which backend runs and why, how many tenants, connections and events\n"
	"there are, and how many records were taken and lost; then each event: its name and\n"
	"state, with the kernel's backends the tracers that use it (ftrace, perf, other),\n"
	"and the programs and tenants that hold it.");

COMMAND(version, "", "versions of userevctl, library and daemon", NULL,
	"Shows the versions of this program, of its library, and of the daemon if it can\n"
	"be reached.");
