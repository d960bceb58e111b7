/* SPDX-License-Identifier: GPL-2.0-or-later */

/* stats: counts the records of a tail, and shows how many come in a second. */

#include <inttypes.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "client/userevctl/tracing/tracing.h"
#include "protocol/base/table.h"

enum {
	HISTORY = 30,	  /* intervals */
	RATES_MAX = 1000, /* the rest is counted together */
	MARGIN_LINES = 4, /* of a screen: titles, notes and the cursor */
};

struct rate {
	uint64_t now, peak, total; /* records; `now`: of the present interval */
	uint64_t history[HISTORY]; /* the last one is the newest */
	UT_hash_handle by_key;
	char key[];
};

struct stats {
	struct record_sink sink; /* first */
	struct ctl *ctl;
	struct tracing *tracing;
	struct record_view view;
	const char *by, *filter;
	bool foreign;
	uint64_t interval, intervals; /* `interval`: s; `intervals`: ends after so many; 0: never */
	struct rate *rates;
	uint64_t missed;
	size_t lines; /* on the terminal */
};

static const char the_rest[] = "(others)";

static struct rate *rate_of_key(struct stats *stats, const char *key)
{
	const size_t length = strlen(key);
	struct rate *rate;

	HASH_FIND(by_key, stats->rates, key, length, rate);
	if (rate)
		return rate;
	if (HASH_CNT(by_key, stats->rates) >= RATES_MAX && key != the_rest)
		return rate_of_key(stats, the_rest);
	rate = must(calloc(1, sizeof(*rate) + length + 1));
	memcpy(rate->key, key, length);
	HASH_ADD_KEYPTR(by_key, stats->rates, rate->key, length, rate);
	must(table_added() ? rate : NULL);
	return rate;
}

static bool stats_put(struct record_sink *sink, const struct taken_record *record)
{
	struct stats *stats = (struct stats *)sink;
	const char *key = record->name;

	if (streq(stats->by, "tenant"))
		key = tenant_shown(record->tenant);
	else if (streq(stats->by, "program"))
		key = record->comm;
	rate_of_key(stats, key)->now++;
	return true;
}

static void stats_missed(struct record_sink *sink, uint64_t missed)
{
	((struct stats *)sink)->missed += missed;
}

static int compare_rates(const struct rate *a, const struct rate *b)
{
	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return strcmp(a->key, b->key);
}

/* The present interval becomes the newest of the history. */
static void rate_turn(struct rate *rate)
{
	memmove(rate->history, rate->history + 1, sizeof(rate->history) - sizeof(rate->history[0]));
	rate->history[HISTORY - 1] = rate->now;
	rate->peak = MAX(rate->peak, rate->now);
	rate->total += rate->now;
	rate->now = 0;
}

/* A character of three bytes for each interval, as high as it is against the highest. */
static void rate_draw(const struct rate *rate, char ret[static 3 * HISTORY + 1])
{
	uint64_t most = 1;
	char *at = ret;

	for (size_t i = 0; i < HISTORY; i++)
		most = MAX(most, rate->history[i]);
	for (size_t i = 0; i < HISTORY; i++) {
		const unsigned height = (unsigned)((double)rate->history[i] / (double)most * 7.0 + 0.5);

		/* U+2581 is the lowest block. */
		at += snprintf(at, 4, rate->history[i] > 0 ? "\xe2\x96%c" : " ", (char)(0x81 + height));
	}
	*at = '\0';
}

static void print_json(const struct stats *stats, FILE *file)
{
	for (const struct rate *rate = stats->rates; rate; rate = rate->by_key.next)
		json_print(file, json_text(stats->by, rate->key), json_u64("records", rate->history[HISTORY - 1]),
			   json_u64("seconds", stats->interval), json_u64("total", rate->total));
	if (stats->missed > 0)
		json_print(file, json_u64("missed", stats->missed));
}

static void print_table(const struct stats *stats, const struct output *output, size_t most)
{
	const char *title = streq(stats->by, "event") ? "EVENT" : streq(stats->by, "tenant") ? "TENANT" : "PROGRAM";
	const struct column columns[] = {
		{ "RECORDS/s", COLUMN_NUMBER, 0 },
		{ "PEAK", COLUMN_NUMBER, 1 },
		{ "TOTAL", COLUMN_NUMBER, 1 },
		{ output->terminal ? " " : "", COLUMN_TEXT, 2 }, /* a column without a title is not shown */
		{ title, COLUMN_LONG, 0 },
	};
	struct table table = table_make(columns, ARRAY_SIZE(columns));
	const struct rate *rate = stats->rates;
	char history[3 * HISTORY + 1];

	for (; rate && most > 0; rate = rate->by_key.next, most--) {
		rate_draw(rate, history);
		table_put_number(&table, STYLE_BOLD, rate->history[HISTORY - 1] / stats->interval);
		table_put_number(&table, STYLE_PLAIN, rate->peak / stats->interval);
		table_put_number(&table, STYLE_PLAIN, rate->total);
		table_put(&table, STYLE_GOOD, history);
		table_put_safe(&table, STYLE_NAME, rate->key, strlen(rate->key));
	}
	table_print(&table, output);
	table_deinit(&table);
	if (rate)
		fputs("...\n", output->file);
	if (stats->missed > 0)
		output_styled(output, STYLE_BAD, "%s missed: they came faster than userevctl could read.\n",
			      plural(stats->missed, "record is", "records are").text);
}

/* On a terminal in the place of the last one. */
static void redraw(struct stats *stats)
{
	_cleanup_(freep) char *text = NULL;
	struct output output = stats->ctl->output;
	struct winsize window = { 0 };
	size_t size = 0;

	ioctl(fileno(output.file), TIOCGWINSZ, &window);
	output.file = must(open_memstream(&text, &size));
	if (stats->lines > 0)
		fprintf(output.file, "\033[%zuA\033[J", stats->lines);
	print_table(stats, &output, MAX(window.ws_row, MARGIN_LINES + 1) - MARGIN_LINES);
	fclose(output.file);
	stats->lines = 0;
	for (size_t i = 0; i < size; i++)
		stats->lines += text[i] == '\n';
	fwrite(text, 1, size, stats->ctl->output.file);
}

/* 0 or a negative errno of the output. */
static int show(struct stats *stats)
{
	struct output *output = &stats->ctl->output;

	for (struct rate *rate = stats->rates; rate; rate = rate->by_key.next)
		rate_turn(rate);
	HASH_SRT(by_key, stats->rates, compare_rates);
	if (output->json)
		print_json(stats, output->file);
	else if (isatty(fileno(output->file)))
		redraw(stats);
	else
		print_table(stats, output, SIZE_MAX);
	return output_flush(output);
}

/* Records, until the interval ends, the tail does, or the output has no reader any more. */
static int count_until(struct stats *stats, uint64_t end)
{
	struct tracing *tracing = stats->tracing;
	struct pollfd wanted[] = {
		{ .fd = tracing->fd, .events = POLLIN },
		{ .fd = fileno(stats->ctl->output.file) },
	};
	int r = EXIT_DONE;

	while (r == EXIT_DONE && !tracing->over && !(wanted[1].revents & (POLLERR | POLLNVAL))) {
		const uint64_t now = ctl_now_ns(), until = MIN(end, tracing->due > 0 ? tracing->due : UINT64_MAX);

		if (now >= end)
			break;
		if (poll(wanted, ARRAY_SIZE(wanted),
			 tracing->busy ? 0 : (int)((until - MIN(until, now)) / NS_PER_MS + 1)) >= 0)
			r = tail_read(tracing, &stats->view);
	}
	return r;
}

static int stats_count(struct stats *stats)
{
	struct tracing *tracing = stats->tracing;
	uint64_t end = ctl_now_ns();
	int r;

	tracing->foreign = stats->foreign || tracing->no_daemon ? FOREIGN_ALL : FOREIGN_NEVER;
	tracing->filter = stats->filter;
	tracing->only_while.tenant = stats->view.tenant;
	r = names_check(tracing, true);
	if (r == EXIT_DONE)
		r = tail_begin(tracing, 0);
	for (uint64_t i = 0; r == EXIT_DONE && !tracing->over && (stats->intervals == 0 || i < stats->intervals); i++) {
		end += stats->interval * NS_PER_S;
		r = count_until(stats, end);
		if (r == EXIT_DONE && show(stats) < 0)
			break;
	}
	return r;
}

static int stats_run(struct ctl *ctl)
{
	struct stats stats = { .sink = { stats_put, stats_missed, NULL }, .ctl = ctl, .by = "event", .interval = 1 };
	struct rate *rate, *next;
	int r;

	options_read(ctl, &stats, 0, INT32_MAX);
	stats.view.output = &ctl->output;
	stats.view.sink = &stats.sink;
	r = tracing_open(ctl, TRACING_ACT, &stats.tracing);
	if (r == EXIT_DONE)
		r = stats_count(&stats);
	tracing_free(stats.tracing);
	HASH_ITER(by_key, stats.rates, rate, next) {
		HASH_DELETE(by_key, stats.rates, rate);
		free(rate);
	}
	return r;
}

static const char *const keys[] = { "event", "tenant", "program", NULL };
COMMAND(stats, "[EVENT...]", "",
	OPTIONS(VALUE_ROW("by", "WHAT", OPTION_WORD, struct stats, by, .words = keys,
			  .help = "count by event (the default), tenant or program"),
		NUMBER_ROW("interval", "SECONDS", struct stats, interval, 1, 86400, "of each count (default 1)"),
		NUMBER_ROW("count", "N", struct stats, intervals, 1, UINT64_MAX, "end after N intervals"),
		TEXT_ROW("tenant", "TENANT", struct stats, view.tenant,
			 "only records of tenants with this name or path"),
		TEXT_ROW("filter", "FILTER", struct stats, filter, "only records for which this is true, as with tail"),
		FLAG_ROW("foreign", struct stats, foreign, "also events made without the daemon")),
	"Counts records, by event, tenant or program. The named events (patterns too) are on\n"
	"while this runs. Without a name, the records of all events that are on anyway are\n"
	"counted. On a terminal the last 30 intervals are drawn.");
