/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * hist: counts records by the values of their fields, in the kernel's own histogram, which is a trigger of the event in an instance of
 * this command's. No record is written for it.
 */

#include "client/userevctl/tracing/hist.h"

#include <inttypes.h>
#include <poll.h>

#include "client/userevctl/tracing/only.h"
#include "protocol/base/number.h"

enum { BAR_WIDTH = 30 };

/* "us.log2,path" has the names us and path. False: too many. */
static bool hist_add_names(struct hist *hist, char **to, const char *list)
{
	char *end;

	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		if (hist->names.n == HIST_NAMES_MAX)
			return false;
		hist->names.name[hist->names.n++] = *to;
		end = mempcpy(*to, list, strcspn(list, ".,="));
		*to = end + 1;
	}
	return true;
}

/* In the order of the first key if its values are ranges, otherwise the most frequent first. False: it is too long. */
static bool hist_make_trigger(struct hist *hist)
{
	struct text text = text_make(hist->trigger, sizeof(hist->trigger));
	const size_t name = strcspn(hist->keys, ".,=");
	const char *modifier = hist->keys + name;
	const char *const conditions[] = { hist->filter, hist->threads };
	char *to = hist->copy;
	const bool ranges = strncmp(modifier, ".log2", strlen(".log2")) == 0 ||
			    strncmp(modifier, ".buckets", strlen(".buckets")) == 0;

	text_printf(&text, "hist:keys=%s", hist->keys);
	if (hist->values)
		text_printf(&text, ":vals=%s", hist->values);
	if (hist->sort)
		text_printf(&text, ":sort=%s", hist->sort);
	else if (ranges)
		text_printf(&text, ":sort=%.*s", (int)name, hist->keys);
	else
		text_printf(&text, ":sort=hitcount.descending");
	for (size_t i = 0, n = 0; i < ARRAY_SIZE(conditions); i++)
		if (conditions[i])
			text_printf(&text, "%s(%s)", n++ > 0 ? " && " : " if ", conditions[i]);
	hist->names.n = 0;
	if (text.cut || !hist_add_names(hist, &to, hist->keys))
		return false;
	hist->names.n_keys = hist->names.n;
	return hist_add_names(hist, &to, hist->values ? hist->values : "");
}

/* "~ 2^10" is what the kernel calls the values above 512, up to 1024. */
static bool hist_power(const struct hist_line *line, size_t i, uint64_t *ret)
{
	unsigned power;

	if (sscanf(line->at[i], "~ 2^%2u", &power) != 1 || power > 63)
		return false;
	*ret = UINT64_C(1) << power;
	return true;
}

static void hist_print_json(const struct hist *hist, const struct output *output, const char *event,
			    const struct hist_line *line)
{
	struct json json = { .file = output->file };
	uint64_t number;

	json_begin(&json, '{');
	json_put(&json, json_text("event", event));
	json_put_begin(&json, "keys", '{');
	for (size_t i = 0; i < hist->names.n; i++) {
		if (i == hist->names.n_keys) {
			json_end(&json, '}');
			json_put_begin(&json, "values", '{');
		}
		json_put_key(&json, hist->names.name[i]);
		if (hist_power(line, i, &number) ||
		    number_parse(line->at[i], line->length[i], UINT64_MAX, &number) == NUMBER_GOOD)
			json_raw(&json, "%" PRIu64, number);
		else
			json_string(&json, line->at[i], line->length[i]);
	}
	json_end(&json, '}');
	json_put(&json, json_u64("hits", line->hits));
	json_end(&json, '}');
}

static void hist_put_row(const struct hist *hist, struct table *table, const char *event, const struct hist_line *line,
			 uint64_t most)
{
	char bar[BAR_WIDTH + 1] = "", range[32];
	uint64_t number;

	memset(bar, '#', (size_t)(line->hits * BAR_WIDTH / MAX(most, UINT64_C(1))));
	table_put(table, STYLE_NAME, event);
	for (size_t i = 0; i < hist->names.n; i++) {
		if (i == hist->names.n_keys)
			table_put_number(table, STYLE_BOLD, line->hits);
		if (hist_power(line, i, &number)) {
			snprintf(range, sizeof(range), "<= %" PRIu64, number);
			table_put(table, STYLE_PLAIN, range);
		} else {
			table_put_safe(table, STYLE_PLAIN, line->at[i], line->length[i]);
		}
	}
	if (hist->names.n == hist->names.n_keys)
		table_put_number(table, STYLE_BOLD, line->hits);
	table_put(table, STYLE_GOOD, bar);
}

/* The text twice, since the bars are relative to the longest. */
void hist_print(struct hist *hist, const struct output *output, const char *event, const char *text,
		struct table *table)
{
	uint64_t most = 0, number;

	for (int pass = 0; pass < 2; pass++) {
		_cleanup_(freep) char *copy = must(strdup(text));
		struct hist_line parsed;
		char *rest = copy;

		for (char *line; (line = strsep(&rest, "\n"));) {
			if (hist_line_read(line, &hist->names, &parsed)) {
				most = MAX(most, parsed.hits);
				if (pass == 1 && output->json)
					hist_print_json(hist, output, event, &parsed);
				else if (pass == 1)
					hist_put_row(hist, table, event, &parsed, most);
			} else if (pass == 1 && sscanf(line, " Hits: %" SCNu64, &number) == 1) {
				hist->hits += number;
			} else if (pass == 1 && sscanf(line, " Dropped: %" SCNu64, &number) == 1) {
				hist->dropped += number;
			}
		}
	}
}

struct table hist_table(const struct hist *hist, const struct output *output, struct column columns[HIST_COLUMNS])
{
	size_t n = 0;

	columns[n++] = (struct column){ "EVENT", COLUMN_TEXT, 0 };
	for (size_t i = 0; i < hist->names.n; i++) {
		if (i == hist->names.n_keys)
			columns[n++] = (struct column){ "HITS", COLUMN_NUMBER, 0 };
		columns[n++] =
			(struct column){ hist->names.name[i], i < hist->names.n_keys ? COLUMN_LONG : COLUMN_NUMBER, 0 };
	}
	if (hist->names.n == hist->names.n_keys)
		columns[n++] = (struct column){ "HITS", COLUMN_NUMBER, 0 };
	/* Bars are for people: a column without a title is not shown. */
	columns[n++] = (struct column){ output->terminal ? " " : "", COLUMN_TEXT, 1 };
	return table_make(columns, n);
}

void hist_end(const struct hist *hist, const struct output *output, struct table *table, uint64_t entries)
{
	if (!output->json && table->n_cells > 0)
		table_print(table, output);
	table_deinit(table);
	ctl_note("userevctl: %s counted.", plural(hist->hits, "record", "records").text);
	if (hist->dropped > 0)
		ctl_note("userevctl: %s not counted: the kernel's table of %" PRIu64 " entries is full.",
			 plural(hist->dropped, "record was", "records were").text, entries);
}

static void hist_print_all(struct hist *hist, const struct tracing *tracing, const struct output *output)
{
	struct column columns[HIST_COLUMNS];
	struct table table = hist_table(hist, output, columns);

	for (const struct follower_event *event = tracing->follower->events; event; event = event->by_shown.next) {
		_cleanup_(freep) char *text = tracefs_event_file_read(tracing->follower->instance, event->event.system,
								      event->event.shown, "hist", NULL);

		if (text)
			hist_print(hist, output, event->event.shown, text, &table);
	}
	hist_end(hist, output, &table, HIST_ENTRIES);
}

/* Until the time is up, or a signal ends it. */
static int hist_count(struct tracing *tracing, uint64_t seconds)
{
	const uint64_t deadline = ctl_now_ns() + seconds * NS_PER_S;
	int r = follower_begin(tracing, 0);

	if (r == EXIT_DONE)
		only_while_note(tracing);
	while (r == EXIT_DONE && !follower_stopped && ctl_now_ns() < deadline) {
		const uint64_t now = ctl_now_ns(), until = MIN(deadline, tracing->due);

		poll(NULL, 0, (int)((until - MIN(until, now)) / NS_PER_MS + 1));
		if (ctl_now_ns() >= tracing->due)
			r = look_now(tracing->follower, NULL);
	}
	return r;
}

/* Of events that are on for other tenants, too, the kernel counts those threads that these tenants have now. */
static int hist_select_threads(struct hist *hist, struct tracing *tracing)
{
	static char threads[HIST_TRIGGER_MAX];
	_cleanup_(only_deinit) struct only only = { 0 };
	struct text text = text_make(threads, sizeof(threads));
	bool any = false;
	int r;

	for (const struct event *event = NULL; (event = tracing_next(tracing, event));)
		any |= only_while_is_shared(tracing, event);
	if (!hist->tenant || !any)
		return EXIT_DONE;
	r = only_find(tracing, &hist->tenant, 1, false, &only);
	if (r == EXIT_DONE)
		r = threads_condition(&only, &text);
	if (r != EXIT_DONE)
		return r;
	hist->threads = threads;
	if (!hist_make_trigger(hist)) {
		ctl_error("--tenant: a filter has to name the tenant's threads, and %s too many for one.",
			  plural(only.threads, "is", "are").text);
		return EXIT_REFUSED;
	}
	ctl_note("userevctl: a filter counts only the %s that these tenants have now, and none that comes later.",
		 plural(only.threads, "thread", "threads").text);
	return EXIT_DONE;
}

static int hist_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct hist hist = { .timeout = HIST_SECONDS };
	int r;

	options_read(ctl, &hist, 1, INT32_MAX);
	if (!hist.keys || !hist_make_trigger(&hist)) {
		ctl_error("hist: %s. See 'userevctl hist --help'.",
			  hist.keys ? "these options are too long" : "--key=FIELD is missing");
		return EXIT_USAGE;
	}
	r = tracing_open(ctl, TRACING_ACT, &tracing);
	if (r != EXIT_DONE)
		return r;
	if (!tracing->kernel) {
		ctl_error("hist: the embedded backend has no histograms. Count the fields of 'tail --json' instead.");
		return EXIT_REFUSED;
	}
	tracing->foreign = FOREIGN_BY_NAME;
	tracing->trigger = hist.trigger;
	tracing->only_while.tenant = hist.tenant;
	r = names_check(tracing, true);
	if (r == EXIT_DONE)
		r = hist_select_threads(&hist, tracing);
	if (r == EXIT_DONE)
		r = hist_count(tracing, hist.timeout);
	if (r == EXIT_DONE && hist.tenant && tracing->only_while.shared > 0 && !hist.threads)
		ctl_note(
			"userevctl: %s on for other tenants, too, and came too late for a filter: their records are counted.",
			plural(tracing->only_while.shared, "event is", "events are").text);
	if (r == EXIT_DONE)
		hist_print_all(&hist, tracing, &ctl->output);
	return r;
}

COMMAND(hist, "EVENT...", "count records: fields, times between, rates",
	OPTIONS(TEXT_ROW("key", "FIELD[,FIELD...]", struct hist, keys,
			 "count by their values; FIELD.log2 by powers of two, also\n"
			 ".buckets=N, .hex, common_pid.execname"),
		TEXT_ROW("value", "FIELD[,FIELD...]", struct hist, values, "show the sums of these, too"),
		TEXT_ROW("sort", "FIELD[.descending]", struct hist, sort,
			 "default: by ranges, else the most frequent first"),
		TEXT_ROW("filter", "FILTER", struct hist, filter,
			 "only records for which this is true, as 'status >= 500'"),
		TEXT_ROW("tenant", "TENANT", struct hist, tenant, "only records of tenants with this name or path"),
		NUMBER_ROW("timeout", "SECONDS", struct hist, timeout, 1, UINT32_MAX,
			   "count for this time (default 10)")),
	"Counts records by the values of fields, in the kernel's own histogram: no record is\n"
	"written for it, and other tracers notice nothing. Ctrl-C ends it earlier.");
