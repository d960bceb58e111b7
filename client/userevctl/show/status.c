/* SPDX-License-Identifier: GPL-2.0-or-later */

/* status, version. */

#include <inttypes.h>

#include "client/userev.h"
#include "client/userevctl/show/show.h"
#include "client/userevctl/silence/silence.h"

enum { TITLE_WIDTH = 9 };

static struct phrase row_plural(struct cursor row, const char *key, const char *singular, const char *many)
{
	return plural(row_get_u64(row, key), singular, many);
}

static void print_title(const struct output *output, const char *title)
{
	fprintf(output->file, "%*s", (int)(TITLE_WIDTH - strlen(title)), "");
	output_styled(output, STYLE_BOLD, "%s:", title);
	putc(' ', output->file);
}

#define print_line(output, style, title, ...)                                                                          \
	(print_title(output, title), output_styled(output, style, __VA_ARGS__), putc('\n', (output)->file))

static void print_daemon(const struct output *output, struct cursor row, bool kernel)
{
	static const struct {
		const char *title, *key;
		enum style style;
		bool kernel_only;
	} lines[] = {
		{ "Backend", "backend", STYLE_NAME, false },	 { "Why", "why", STYLE_PLAIN, false },
		{ "Clients", "socket", STYLE_PLAIN, false },	 { "Admins", "control_socket", STYLE_PLAIN, false },
		{ "Policy", "policy_note", STYLE_PLAIN, false }, { "Guard", "guard", STYLE_PLAIN, true },
		{ "Native", "native", STYLE_PLAIN, false },	 { "Note", "note", STYLE_PLAIN, true },
	};

	print_line(output, STYLE_PLAIN, "Daemon", "userevd %s, pid %" PRIu64 ", up %s", row_string(row, "version").text,
		   row_get_u64(row, "pid"), humane_duration(row_get_u64(row, "uptime")).text);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct safe_string text = row_string(row, lines[i].key);

		if (text.text[0] && (kernel || !lines[i].kernel_only))
			print_line(output, lines[i].style, lines[i].title, "%s", text.text);
	}
}

/* Since Linux 6.5; 0: the kernel does not say, or has nothing to do with the events. */
static uint64_t events_maximum(const struct tracing *tracing)
{
	FILE *file = tracing->kernel ? fopen("/proc/sys/kernel/user_events_max", "re") : NULL;
	uint64_t maximum = 0;

	if (file && fscanf(file, "%" SCNu64, &maximum) != 1)
		maximum = 0;
	if (file)
		fclose(file);
	return maximum;
}

/* Of `status`: which tenants are muted or blocked, and which events are on for some tenants alone. */
static int silences_load(struct ctl *ctl, struct cursor status, struct control **ret)
{
	int r = 0;

	*ret = NULL;
	if (row_get_u64(status, "silences") > 0)
		r = control_request(ctl->control_socket, KIND_SILENCES, 0, NULL, 0, ret);
	return r < 0 ? control_explain(ctl->control_socket, r) : EXIT_DONE;
}

static int print_silences(struct ctl *ctl, struct control *control)
{
	static const char *const kinds[] = { "muted", "blocked", "only" }, *const titles[] = { "Muted", "Blocked",
											       "Only" };
	static char lists[ARRAY_SIZE(kinds)][4096];
	struct text texts[ARRAY_SIZE(kinds)];
	struct cursor row = { 0 };
	char pattern[WIRE_TENANT_MAX + 1];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		texts[i] = text_make(lists[i], sizeof(lists[i]) - 8);
	while (control && (r = control_next_row(control, &row)) > 0) {
		const struct safe_string kind = row_string(row, "rule"), event = row_string(row, "event");
		size_t i = 0;

		while (i < ARRAY_SIZE(kinds) && !streq(kind.text, kinds[i]))
			i++;
		if (i == ARRAY_SIZE(kinds))
			continue;
		row_get_string(row, "tenant", pattern, sizeof(pattern));
		text_printf(&texts[i], "%s%s%s%s%s", texts[i].length > 0 ? ", " : "", event.text,
			    *event.text ? " in " : "", silence_shown(pattern).text,
			    row_get_u64(row, "temporary") ? " (while a command runs)" : "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (texts[i].length > 0)
			print_line(&ctl->output, STYLE_WARNING, titles[i], "%s%s", lists[i],
				   texts[i].cut ? ", ..." : "");
	return r < 0 ? control_explain(ctl->control_socket, r) : EXIT_DONE;
}

static int print_silences_json(struct ctl *ctl, struct control *control, struct json *json)
{
	struct cursor row = { 0 };
	int r = 0;

	json_put_begin(json, "silence_list", '[');
	while (control && (r = control_next_row(control, &row)) > 0)
		json_row(json, row);
	json_end(json, ']');
	return r < 0 ? control_explain(ctl->control_socket, r) : EXIT_DONE;
}

static void print_details(const struct output *output, const struct tracing *tracing)
{
	struct cursor row = tracing->status;
	uint64_t maximum = events_maximum(tracing), foreign = tracing->events.foreign, lost = row_get_u64(row, "lost"),
		 too_big = row_get_u64(row, "too_big"), bad = tracing->kernel ? 0 : row_get_u64(row, "bad");
	struct phrase in_flight = row_plural(row, "in_flight", "fd in flight", "fds in flight");
	char records[128] = "recorded by the kernel's tracers", most[128] = "";

	if (maximum > 0)
		snprintf(most, sizeof(most), "; the kernel takes %s (user_events_max)",
			 plural(maximum, "event", "events").text);
	if (tracing->kernel)
		print_line(output, STYLE_PLAIN, "Tracefs", "%s%s; %s", safe_string(tracing->place).text, most,
			   foreign == 0 ? "none is foreign"
					: plural(foreign, "event is foreign", "events are foreign").text);
	print_line(output, STYLE_PLAIN, "Tenants", "%s, %s; %s", row_plural(row, "tenants", "tenant", "tenants").text,
		   row_plural(row, "connections", "connection", "connections").text, in_flight.text);
	print_line(output, STYLE_PLAIN, "Events", "%s, held %s, on %s; %s",
		   row_plural(row, "events", "event", "events").text, row_plural(row, "leases", "time", "times").text,
		   row_plural(row, "streams", "stream", "streams").text,
		   row_get_u64(row, "lingering") == 0 ? "none lingers"
						      : row_plural(row, "lingering", "lingers", "linger").text);
	print_line(output, STYLE_PLAIN, "Room", "%" PRIu64 " of %s used; a page has %s, a record at most %s",
		   row_get_u64(row, "charges"), row_plural(row, "capacity", "event", "events").text,
		   row_plural(row, "page_bits", "bit", "bits").text,
		   row_plural(row, "payload_max", "byte", "bytes").text);
	if (!tracing->kernel)
		snprintf(records, sizeof(records), "%" PRIu64 " recorded, %" PRIu64 " bad", row_get_u64(row, "records"),
			 bad);
	print_line(output, lost + too_big + bad > 0 ? STYLE_BAD : STYLE_PLAIN, "Records",
		   "%s, %" PRIu64 " lost, %" PRIu64 " too big", records, lost, too_big);
	if (row_get_u64(row, "events") > 0 || foreign > 0)
		putc('\n', output->file);
	events_print(tracing, true);
}

static int status_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	_cleanup_(control_freep) struct control *silences = NULL;
	const struct output *output = &ctl->output;
	struct json json = { 0 };
	bool brief = false;
	uint64_t maximum;
	int r;

	options_read(ctl, &brief, 0, 0);
	r = tracing_open(ctl, brief ? TRACING_ASK_DAEMON : TRACING_LOOK_AT_DAEMON, &tracing);
	if (r == EXIT_DONE && !brief)
		r = silences_load(ctl, tracing->status, &silences);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = FOREIGN_ALL;
	tracing_learn_fields(tracing);
	json.file = output->file;
	if (output->json) {
		json_begin(&json, '{');
		json_row_fields(&json, tracing->status);
		if (!brief) {
			maximum = events_maximum(tracing);
			json_put(&json, json_if(tracing->kernel, json_text("tracefs", tracing->place)),
				 json_if(tracing->kernel, json_u64("foreign", tracing->events.foreign)),
				 json_if(maximum > 0, json_u64("user_events_max", maximum)));
			r = print_silences_json(ctl, silences, &json);
			json_put_key(&json, "event_list");
			events_print_json(tracing, &json);
		}
		json_end(&json, '}');
	} else {
		print_daemon(output, tracing->status, tracing->kernel);
		if (!brief)
			r = print_silences(ctl, silences);
		if (!brief)
			print_details(output, tracing);
	}
	return r;
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
			   json_if(reachable, json_text("userevd", version.text)),
			   json_if(reachable, json_text("backend", backend.text)));
		return EXIT_DONE;
	}
	fprintf(output->file, "userevctl %s\nlibuserev %s\n", VERSION, userev_version());
	if (reachable)
		fprintf(output->file, "userevd %s (%s)\n", version.text, backend.text);
	else
		fprintf(output->file, "userevd: not reachable at %s\n", ctl->control_socket);
	return EXIT_DONE;
}

COMMAND(status, "", "the daemon: backend, numbers and losses",
	OPTIONS({ .name = "brief", .help = "only whether the daemon answers, and what it is, as for a probe" }),
	"Shows which backend runs and why, how many tenants, connections and events\n"
	"there are, and how many records were taken and lost; then each event: its name and\n"
	"state, with the kernel's backends the tracers that use it (ftrace, perf, other),\n"
	"and the programs and tenants that hold it.");

COMMAND(version, "", NULL, NULL,
	"Shows the versions of this program, of its library, and of the daemon if it can\n"
	"be reached.");
