/* SPDX-License-Identifier: GPL-2.0-or-later */

/* status, version. */

#include <inttypes.h>

#include "client/userev.h"
#include "client/userevctl/tracing/tracing.h"

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

/* A string of the daemon's row, if the row has it. */
static void print_row_text(const struct output *output, struct cursor row, const char *title, const char *key)
{
	struct safe_string text = row_string(row, key);

	if (!text.text[0])
		return;
	print_title(output, title);
	output_styled(output, streq(key, "backend") ? STYLE_NAME : STYLE_PLAIN, "%s", text.text);
	putc('\n', output->file);
}

static void print_loss(const struct output *output, struct cursor row, const char *key, const char *name)
{
	uint64_t count = row_get_u64(row, key);

	fputs(", ", output->file);
	output_styled(output, count > 0 ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64 " %s", count, name);
}

static void print_daemon(const struct output *output, struct cursor row)
{
	char uptime[64];

	humane_duration(row_get_u64(row, "uptime"), uptime, sizeof(uptime));
	print_title(output, "Daemon");
	fprintf(output->file, "userevd %s, pid %" PRIu64 ", up %s\n", row_string(row, "version").text,
		row_get_u64(row, "pid"), uptime);
	print_row_text(output, row, "Backend", "backend");
	print_row_text(output, row, "Why", "why");
	print_row_text(output, row, "Clients", "socket");
	print_row_text(output, row, "Admins", "control_socket");
	print_row_text(output, row, "Policy", "policy_note");
}

static void print_tracefs(const struct output *output, struct cursor row, const struct tracing *tracing,
			  uint64_t foreign)
{
	print_row_text(output, row, "Guard", "guard");
	print_row_text(output, row, "Note", "note");
	print_title(output, "Tracefs");
	fprintf(output->file, "%s; ", safe_string(tracing->place).text);
	if (tracing->events_max_known)
		fprintf(output->file, "the kernel takes %s (user_events_max); ",
			plural(tracing->events_max, "event", "events").text);
	fprintf(output->file, "%s\n",
		foreign == 0 ? "none is foreign" : plural(foreign, "event is foreign", "events are foreign").text);
}

static void print_numbers(const struct output *output, struct cursor row, bool kernel)
{
	print_title(output, "Tenants");
	fprintf(output->file, "%s, %s", row_plural(row, "tenants", "tenant", "tenants").text,
		row_plural(row, "connections", "connection", "connections").text);
	if (row_get_u64(row, "in_flight") > 0)
		fprintf(output->file, "; %s in flight", row_plural(row, "in_flight", "fd", "fds").text);
	putc('\n', output->file);
	print_title(output, "Events");
	fprintf(output->file, "%s, held %s, on %s; %s\n", row_plural(row, "events", "event", "events").text,
		row_plural(row, "leases", "time", "times").text, row_plural(row, "streams", "stream", "streams").text,
		row_get_u64(row, "lingering") == 0 ? "none lingers"
						   : row_plural(row, "lingering", "lingers", "linger").text);
	print_title(output, "Room");
	fprintf(output->file, "%" PRIu64 " of %s used; a page has %s, a record at most %s\n",
		row_get_u64(row, "charges"), row_plural(row, "capacity", "event", "events").text,
		row_plural(row, "page_bits", "bit", "bits").text, row_plural(row, "payload_max", "byte", "bytes").text);
	print_title(output, "Records");
	if (kernel) {
		fputs("recorded by the kernel's tracers", output->file);
	} else {
		fprintf(output->file, "%" PRIu64 " recorded", row_get_u64(row, "records"));
		print_loss(output, row, "bad", "bad");
	}
	print_loss(output, row, "lost", "lost");
	print_loss(output, row, "too_big", "too big");
	putc('\n', output->file);
}

static void count_foreign(void *data, const struct event_view *event)
{
	uint64_t *foreign = data;

	*foreign += event->foreign;
}

static int print_status(struct ctl *ctl, struct tracing *tracing, struct cursor row, uint64_t foreign)
{
	const struct output *output = &ctl->output;

	print_daemon(output, row);
	if (tracing->kernel)
		print_tracefs(output, row, tracing, foreign);
	print_numbers(output, row, tracing->kernel);
	if (row_get_u64(row, "events") > 0 || foreign > 0)
		putc('\n', output->file);
	return events_table(ctl, tracing);
}

static int print_status_json(struct ctl *ctl, struct tracing *tracing, struct cursor row, uint64_t foreign)
{
	struct json json = { .file = ctl->output.file };
	int r;

	json_begin(&json, '{');
	json_row_fields(&json, row);
	if (tracing->kernel) {
		json_put_text(&json, "tracefs", tracing->place);
		json_put_u64(&json, "foreign", foreign);
	}
	if (tracing->events_max_known)
		json_put_u64(&json, "user_events_max", tracing->events_max);
	json_key(&json, "event_list", 10);
	r = events_json(ctl, tracing, &json);
	if (r != EXIT_DONE)
		return r;
	json_end(&json, '}');
	putc('\n', json.file);
	return EXIT_DONE;
}

static int status_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct cursor row = { 0 };
	uint64_t foreign = 0;
	int r;

	options_read(ctl, NULL, 0, 0);
	r = control_open_or_explain(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask_row(control, KIND_STATUS, &row);
	if (r <= 0)
		return control_explain(ctl->control_socket, r < 0 ? r : -EBADMSG, control);
	r = tracing_open(ctl, TRACING_LOOK, &tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = FOREIGN_ALL;
	if (tracing->kernel)
		r = tracing->ops->list(tracing, NULL, 0, false, count_foreign, &foreign);
	if (r == EXIT_DONE)
		r = ctl->json ? print_status_json(ctl, tracing, row, foreign)
			      : print_status(ctl, tracing, row, foreign);
	return r == EXIT_DONE ? ctl_finish(ctl) : r;
}

static int version_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	const struct output *output = &ctl->output;
	struct safe_string version, backend;
	struct cursor row = { 0 };
	bool reachable;

	options_read(ctl, NULL, 0, 0);
	reachable = control_open(ctl->control_socket, &control) == 0 && control_ask_row(control, KIND_STATUS, &row) > 0;
	version = row_string(row, "version");
	backend = row_string(row, "backend");
	if (ctl->json) {
		struct json json = { .file = output->file };

		json_begin(&json, '{');
		json_put_text(&json, "userevctl", VERSION);
		json_put_text(&json, "libuserev", userev_version());
		if (reachable) {
			json_put_text(&json, "userevd", version.text);
			json_put_text(&json, "backend", backend.text);
		}
		json_end(&json, '}');
		putc('\n', output->file);
		return ctl_finish(ctl);
	}
	fprintf(output->file, "userevctl %s\nlibuserev %s\n", VERSION, userev_version());
	if (reachable)
		fprintf(output->file, "userevd %s (%s)\n", version.text, backend.text);
	else
		fprintf(output->file, "userevd: not reachable at %s\n", ctl->control_socket);
	return ctl_finish(ctl);
}

const struct command command_status = {
	.name = "status",
	.arguments = "",
	.summary = "the daemon: backend, numbers and losses",
	.help = "Shows which backend runs and why, how many tenants, connections and events\n"
		"there are, and how many records were taken and lost; then each event: its name and\n"
		"state, with the kernel's backends the tracers that use it (ftrace, perf, other),\n"
		"and the programs and tenants that hold it.",
	.run = status_run,
};

const struct command command_version = {
	.name = "version",
	.arguments = "",
	.summary = "versions of userevctl, library and daemon",
	.help = "Shows the versions of this program, of its library, and of the daemon if it can\n"
		"be reached.",
	.run = version_run,
};
