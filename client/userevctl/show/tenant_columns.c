/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The columns of `tenants` and `top`. */

#include <inttypes.h>

#include "client/userevctl/show/tenants.h"

struct tenant_column {
	struct column column;
	enum { BOTH, TENANTS, TOP } in;
	void (*put)(struct table *, const struct tenant_column *, const struct tenant_views *,
		    const struct tenant_view *);
	const char *key;  /* of the number; "name", or "tenant": the path */
	enum style style; /* of a number that is not 0 */
	const char *help;
};

/* How many of `width` cells a part takes: at least one unless it is 0. */
static size_t cells_of(uint64_t part, uint64_t whole, size_t width)
{
	double share = whole > 0 ? (double)part / (double)whole : 1;

	return part == 0 ? 0 : MAX((size_t)(MIN(share, 1.) * (double)width), (size_t)1);
}

enum style bar_make(char ret[static BAR_MOST + 3], size_t inside, uint64_t used, uint64_t most, uint64_t reserved,
		    bool at_end)
{
	size_t filled = cells_of(used, most, inside), marked = cells_of(reserved, most, inside);

	memset(ret, ' ', inside + 2);
	ret[0] = '[';
	if (at_end)
		memset(ret + 1 + inside - marked, ':', marked);
	else
		memset(ret + 1, ':', marked);
	memset(ret + 1, '|', filled);
	ret[inside + 1] = ']';
	ret[inside + 2] = '\0';
	if (used >= most)
		return used > 0 ? STYLE_BAD : STYLE_PLAIN;
	/* The share at which the daemon warns. */
	return (double)used >= 0.8 * (double)most ? STYLE_WARNING : STYLE_GOOD;
}

struct phrase rate_of(int64_t change, double seconds)
{
	double rate = seconds > 0 ? (double)change / seconds : 0;
	struct phrase ret = { "-" };

	if (seconds > 0)
		snprintf(ret.text, sizeof(ret.text), "%.*f", rate > 0 && rate < 10 ? 1 : 0, rate);
	return ret;
}

/* The name or the path, or a number. */
static void put_field(struct table *table, const struct tenant_column *column,
		      const struct tenant_views *views _unused_, const struct tenant_view *view)
{
	uint64_t number;

	if (streq(column->key, "name"))
		table_put(table, STYLE_NAME, view->name.text);
	else if (streq(column->key, "tenant"))
		table_put(table, column->style, view->path);
	else if (tenant_number(view->row, column->key, &number))
		table_put_number(table, number > 0 ? column->style : STYLE_PLAIN, number);
	else
		table_put(table, STYLE_DIM, "-");
}

static void put_bar(struct table *table, const struct tenant_column *column _unused_, const struct tenant_views *views,
		    const struct tenant_view *view)
{
	uint64_t events, most, reserved;
	char bar[BAR_MOST + 3];
	enum style style;

	tenant_number(view->row, "events", &events);
	tenant_number(view->row, "reserved", &reserved);
	if (!tenant_number(view->row, "events_max", &most))
		most = row_get_u64(views->status, "capacity");
	style = bar_make(bar, BAR_LEAST, events, most, reserved, false);
	table_put(table, style, bar);
}

/* Of a counter by the second; of events since the last look. */
static void put_change(struct table *table, const struct tenant_column *column, const struct tenant_views *views,
		       const struct tenant_view *view)
{
	int64_t change = tenant_change(view, column->key);
	struct phrase rate = rate_of(change, views->seconds);

	if (streq(column->key, "events") && views->seconds > 0 && change != 0)
		snprintf(rate.text, sizeof(rate.text), "%+" PRId64, change);
	table_put(table, change > 0 ? column->style : STYLE_DIM, rate.text);
}

static const char *tenant_state(const struct tenant_view *view)
{
	return row_get_u64(view->row, "blocked") ? "blocked" : row_get_u64(view->row, "muted") ? "muted" : "";
}

static void put_state(struct table *table, const struct tenant_column *column,
		      const struct tenant_views *views _unused_, const struct tenant_view *view)
{
	table_put(table, column->style, tenant_state(view));
}

/* "quota-exceeded 5, not-permitted 1" */
static void put_refusals(struct table *table, const struct tenant_column *column,
			 const struct tenant_views *views _unused_, const struct tenant_view *view)
{
	struct cursor refusals = row_rows(view->row, "refusals"), refusal;
	char buffer[1024];
	struct text text = text_make(buffer, sizeof(buffer));

	while (row_next_item(&refusals, &refusal) > 0)
		text_printf(&text, "%s%s %" PRIu64, text.length > 0 ? ", " : "", row_string(refusal, "reason").text,
			    row_get_u64(refusal, "count"));
	table_put(table, column->style, buffer);
}

#define COLUMN(title, kind, rank, in, put, key, style, help)                                                           \
	{                                                                                                              \
		{ title, kind, rank }, in, put, key, style, help                                                       \
	}
#define NUMBER(title, rank, in, key, style, help) COLUMN(title, COLUMN_NUMBER, rank, in, put_field, key, style, help)
#define RATE(title, rank, key, style)                                                                                  \
	COLUMN(title, COLUMN_NUMBER, rank, TOP, put_change, key, style, "the same, per second")

/* The ranks are those of `top`: `tenants` leaves out none. */
static const struct tenant_column columns[] = {
	COLUMN("NAME", COLUMN_PATH, 0, BOTH, put_field, "name", STYLE_PLAIN, "the container or unit"),
	COLUMN("STATE", COLUMN_TEXT, 1, BOTH, put_state, "state", STYLE_WARNING, "muted or blocked, if any tenant is"),
	COLUMN("TENANT", COLUMN_PATH, 15, BOTH, put_field, "tenant", STYLE_PLAIN, "the path of the cgroup"),
	COLUMN("USED", COLUMN_TEXT, 2, TOP, put_bar, "", STYLE_PLAIN,
	       "events of the maximum, or of the machine; : reserved"),
	NUMBER("EVENTS", 1, BOTH, "events", STYLE_BOLD, "events that the tenant holds"),
	NUMBER("MAX", 5, BOTH, "events_max", STYLE_PLAIN, "events that the tenant may hold"),
	COLUMN("+/-", COLUMN_NUMBER, 11, TOP, put_change, "events", STYLE_DIM, "change of EVENTS since the last look"),
	NUMBER("RESERVE", 10, BOTH, "reserved", STYLE_PLAIN, "events that are reserved for the tenant"),
	NUMBER("LINGER", 8, BOTH, "lingering", STYLE_PLAIN, "events released, but still open in a process"),
	NUMBER("CONN", 4, BOTH, "connections", STYLE_PLAIN, "connections"),
	NUMBER("CONN MAX", 0, TENANTS, "connections_max", STYLE_PLAIN, NULL),
	NUMBER("FILES", 14, TOP, "files", STYLE_PLAIN, "open data files, lingering ones included"),
	NUMBER("REFUSED", 7, TOP, "refusals", STYLE_WARNING, "requests that were refused"),
	RATE("REF/S", 3, "refusals", STYLE_WARNING),
	NUMBER("LOST", 12, BOTH, "lost", STYLE_BAD, "records that were lost"),
	RATE("LOST/S", 6, "lost", STYLE_BAD),
	NUMBER("THROT", 13, BOTH, "throttled", STYLE_WARNING, "requests that had to wait"),
	RATE("THR/S", 9, "throttled", STYLE_WARNING),
	COLUMN("REFUSED", COLUMN_LONG, 0, TENANTS, put_refusals, "", STYLE_WARNING, NULL),
};

void tenant_views_print(const struct tenant_views *views, const struct output *output, size_t first, size_t most,
			const char *order)
{
	struct column plain[ARRAY_SIZE(columns)] = { 0 };
	_cleanup_(table_deinit) struct table table = table_make(plain, ARRAY_SIZE(columns));
	bool has_state = false;

	for (size_t i = 0; i < views->n; i++)
		has_state |= *tenant_state(&views->view[i]) != '\0';
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		plain[i] = columns[i].column;
		plain[i].rank = order ? columns[i].column.rank : 0;
		if (columns[i].in == (order ? TENANTS : TOP) || (streq(columns[i].key, "state") && !has_state))
			table.hidden |= 1U << i;
		else if (order && streq(columns[i].key, order))
			table.sorted_by = MIN(table.sorted_by, i);
	}
	for (size_t i = first; i < views->n && i - first < most; i++)
		for (size_t j = 0; j < ARRAY_SIZE(columns); j++)
			columns[j].put(&table, &columns[j], views, &views->view[i]);
	table_print(&table, output);
}

void tenant_columns_explain(const struct output *output)
{
	static const struct column titles[] = { { "COLUMN", COLUMN_TEXT, 0 }, { "MEANING", COLUMN_LONG, 0 } };
	_cleanup_(table_deinit) struct table table = table_make(titles, ARRAY_SIZE(titles));

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (columns[i].help) {
			table_put(&table, STYLE_PLAIN, columns[i].column.title);
			table_put(&table, STYLE_PLAIN, columns[i].help);
		}
	table_print(&table, output);
}
