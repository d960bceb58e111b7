/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Since Linux 6.4 a page of each tenant shows which events are on, so the daemon can keep an event off in all other pages: their programs
 * do not even write. First the daemon is asked for that, and then the event is switched on; it is switched off in the other order. So there
 * is no moment in which it is on for the others.
 */

#include "client/userevctl/tracing/only.h"

#include "client/userevctl/show/tenant_name.h"
#include "protocol/base/array.h"

void only_deinit(struct only *only)
{
	silence_patterns_deinit(&only->patterns);
	silence_answer_deinit(&only->answer);
}

/* Each name once: the formats of a multi-format event have one. */
struct only_names {
	const char **name;
	size_t n;
};

static void only_add_name(struct only_names *names, const char *name)
{
	if (names->n > 0 && streq(names->name[names->n - 1], name))
		return;
	names->name = must(array_grow(names->name, names->n, sizeof(*names->name)));
	names->name[names->n++] = name;
}

bool only_is_shared(const struct tracing *tracing, const struct event *event)
{
	return event->foreign || streq(row_string(tracing->status, "backend").text, "status-page");
}

int only_find(struct tracing *tracing, const char *const *tenants, size_t n, bool keep, struct only *only)
{
	if (tracing->no_daemon) {
		ctl_error("--tenant: only the daemon can tell tenants apart, and none runs at %s.",
			  tracing->ctl->control_socket);
		return EXIT_NO_DAEMON;
	}
	only->keep = keep;
	return silence_find(tracing->ctl, tenants, n, &only->patterns);
}

int only_begin(struct tracing *tracing, const char *pattern, struct only *only)
{
	struct only_names names = { 0 };
	int r = EXIT_DONE;

	only->shared = 0;
	for (const struct event *event = NULL; (event = tracing_next(tracing, event));) {
		if (pattern && !tracing_matches(tracing, pattern, event))
			continue;
		if (only_is_shared(tracing, event))
			only->shared++;
		else
			only_add_name(&names, event->name);
	}
	if (only->shared > 0 && only->keep) {
		ctl_error(
			"--keep: %s for all tenants or for none. A filter would have to name a tenant's threads, and these have "
			"other numbers after a boot.",
			plural(only->shared, "event is", "events are").text);
		r = EXIT_REFUSED;
	} else if (only->shared > 0) {
		r = threads_begin(tracing, pattern, only);
	}
	if (r == EXIT_DONE && names.n > 0) {
		silence_answer_deinit(&only->answer);
		r = silence_ask(tracing->ctl, ASK_ONLY, names.name, names.n, &only->patterns, &only->answer);
	}
	free(names.name);
	return r;
}

int only_end(struct tracing *tracing)
{
	_cleanup_(only_deinit) struct only only = { 0 };
	struct only_names names = { 0 };
	struct row_field field;
	int r = threads_end(tracing);

	for (const struct event *event = NULL; r == EXIT_DONE && (event = tracing_next(tracing, event));)
		if (row_find(event->row, "only", &field))
			only_add_name(&names, event->name);
	if (names.n > 0)
		r = silence_ask(tracing->ctl, ASK_ALL, names.name, names.n, &only.patterns, &only.answer);
	free(names.name);
	return r;
}

static void print_tenants_json(const struct only *only, struct json *json)
{
	json_put_begin(json, "tenants", '[');
	for (size_t i = 0; i < only->patterns.n; i++)
		json_string(json, only->patterns.at[i].text, strlen(only->patterns.at[i].text));
	json_end(json, ']');
}

static void only_print_json(const struct tracing *tracing, uint64_t events, const struct only *only)
{
	struct json json = { .file = tracing->ctl->output.file };
	const bool has_pages = only->answer.rows != NULL;

	json_begin(&json, '{');
	json_put(&json, json_u64("events", events), json_bool("on", true));
	print_tenants_json(only, &json);
	json_put(&json, json_if(has_pages, json_u64("tenants_on", only->answer.on)),
		 json_if(has_pages, json_u64("tenants_off", only->answer.off)),
		 json_if(only->shared > 0, json_u64("threads", only->threads)));
	json_end(&json, '}');
}

/* "shop (podman), bank (machine) and 3 more" */
static void print_tenants(FILE *file, const struct only *only)
{
	enum { SHOWN_MAX = 3 };

	for (size_t i = 0; i < MIN(only->patterns.n, (size_t)SHOWN_MAX); i++)
		fprintf(file, "%s%s", i > 0 ? ", " : "", silence_shown(only->patterns.at[i].text).text);
	if (only->patterns.n > SHOWN_MAX)
		fprintf(file, " and %zu more", only->patterns.n - SHOWN_MAX);
}

void only_print(const struct tracing *tracing, uint64_t events, const struct only *only)
{
	const struct silence_answer *answer = &only->answer;
	FILE *file = tracing->ctl->output.file;

	if (tracing->ctl->output.json) {
		only_print_json(tracing, events, only);
	} else {
		fprintf(file, "%s on, for ", plural(events, "event is", "events are").text);
		print_tenants(file, only);
		fprintf(file, " alone%s%s.\n", answer->off > 0 ? ": off for " : "",
			answer->off > 0 ? plural(answer->off, "other tenant", "other tenants").text : "");
	}
	if (only->shared > 0)
		ctl_note(
			"userevctl: %s on for all tenants or for none, so programs of the others write, too. A filter records only "
			"the %s that these tenants have now, and none that comes later.",
			plural(only->shared, "event is", "events are").text,
			plural(only->threads, "thread", "threads").text);
	if (!answer->rows)
		return;
	for (size_t i = 0; i < answer->n; i++) {
		char pattern[WIRE_TENANT_MAX + 1];

		row_get_string(answer->rows[i], "tenant", pattern, sizeof(pattern));
		if (row_get_u64(answer->rows[i], "tenants") == 0)
			ctl_note("userevctl: no tenant matches %s now. It is on for one that comes later.",
				 silence_shown(pattern).text);
	}
	if (answer->on == 0)
		ctl_note(
			"userevctl: none of these tenants has such an event now. It is on for one that registers it later.");
	silence_note_kept(answer);
}
