/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Three lines about the machine, then a table of tenants with as many columns as fit, or an explanation of the columns. */

#include <inttypes.h>

#include "client/userevctl/top/top.h"
#include "protocol/base/text.h"

enum {
	BAR_INSIDE = 10, /* of a tenant's bar */
	BAR_MOST = 60,
	LINE_TEXT_MAX = 1024,
};

/* How many of `width` cells a part takes: at least one unless it is 0. */
static size_t cells_of(uint64_t part, uint64_t whole, size_t width)
{
	double share = whole > 0 ? (double)part / (double)whole : 1;

	return part == 0 ? 0 : MAX((size_t)(MIN(share, 1.) * (double)width), (size_t)1);
}

/* "[||||::    ]": used, and reserved but not used; or "[||||    ::]" with the reserved part at the end. */
static enum style make_bar(char ret[static BAR_MOST + 3], size_t inside, uint64_t used, uint64_t most,
			   uint64_t reserved, bool at_end)
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

static struct rate {
	char text[32];
} rate_of(int64_t change, double seconds)
{
	double rate = seconds > 0 ? (double)change / seconds : 0;
	struct rate ret = { "-" };

	if (seconds > 0)
		snprintf(ret.text, sizeof(ret.text), "%.*f", rate > 0 && rate < 10 ? 1 : 0, rate);
	return ret;
}

static void put_bar(struct table *table, const struct tenant_column *column _unused_, const struct tenant_views *views,
		    const struct tenant_view *view)
{
	uint64_t events, most, reserved;
	char bar[BAR_MOST + 3];
	enum style style;

	tenant_number(view, "events", &events);
	tenant_number(view, "reserved", &reserved);
	if (!tenant_number(view, "events_max", &most))
		most = views->machine;
	style = make_bar(bar, BAR_INSIDE, events, most, reserved, false);
	table_put(table, style, bar);
}

/* Of a counter by the second; of events since the last look. */
static void put_change(struct table *table, const struct tenant_column *column, const struct tenant_views *views,
		       const struct tenant_view *view)
{
	int64_t change = tenant_change(view, column->key);
	struct rate rate = rate_of(change, views->seconds);

	if (streq(column->key, "events") && views->seconds > 0 && change != 0)
		snprintf(rate.text, sizeof(rate.text), "%+" PRId64, change);
	table_put(table, change > 0 ? column->style : STYLE_DIM, rate.text);
}

#define COLUMN(title, kind, put, key, style, rank, help)                                                               \
	{                                                                                                              \
		{ title, kind, rank }, put, key, style, help                                                           \
	}
#define NUMBER(title, key, style, rank, help) COLUMN(title, COLUMN_NUMBER, tenant_put, key, style, rank, help)
#define RATE(title, key, style, rank)	      COLUMN(title, COLUMN_NUMBER, put_change, key, style, rank, "the same, per second")

static const struct tenant_column columns[] = {
	COLUMN("NAME", COLUMN_PATH, tenant_put, "name", STYLE_PLAIN, 0, "the container or unit"),
	COLUMN("USED", COLUMN_TEXT, put_bar, "", STYLE_PLAIN, 2,
	       "events of the maximum, or of the machine; : reserved"),
	NUMBER("EVENTS", "events", STYLE_BOLD, 1, "events that the tenant holds"),
	NUMBER("MAX", "events_max", STYLE_PLAIN, 5, "events that the tenant may hold"),
	COLUMN("+/-", COLUMN_NUMBER, put_change, "events", STYLE_DIM, 11, "change of EVENTS since the last look"),
	NUMBER("RESERVE", "reserved", STYLE_PLAIN, 10, "events that are reserved for the tenant"),
	NUMBER("LINGER", "lingering", STYLE_PLAIN, 8, "events released, but still open in a process"),
	NUMBER("CONN", "connections", STYLE_PLAIN, 4, "connections"),
	NUMBER("FILES", "files", STYLE_PLAIN, 14, "open data files, lingering ones included"),
	NUMBER("REFUSED", "refusals", STYLE_WARNING, 7, "requests that were refused"),
	RATE("REF/S", "refusals", STYLE_WARNING, 3),
	NUMBER("LOST", "lost", STYLE_BAD, 12, "records that were lost"),
	RATE("LOST/S", "lost", STYLE_BAD, 6),
	NUMBER("THROT", "throttled", STYLE_WARNING, 13, "requests that had to wait"),
	RATE("THR/S", "throttled", STYLE_WARNING, 9),
	COLUMN("TENANT", COLUMN_PATH, tenant_put, "tenant", STYLE_DIM, 15, "the path of the cgroup"),
};

static void frame_print(const struct output *output, enum style style, const char *text, const char *end)
{
	char fitting[LINE_TEXT_MAX + 4];

	shorten(COLUMN_LONG, text, MAX(output->width, (size_t)5), fitting, sizeof(fitting));
	output_styled(output, style, "%s", fitting);
	fputs(end, output->file);
}

static void print_machine(const struct top_frame *frame, const struct output *output)
{
	const struct cursor status = frame->look.status;
	uint64_t used = row_get_u64(status, "charges"), most = row_get_u64(status, "capacity"),
		 reserved = row_get_u64(status, "reserved");
	struct safe_string guard = row_string(status, "guard");
	char uptime[64], bar[BAR_MOST + 3], text[LINE_TEXT_MAX];
	int length =
		snprintf(NULL, 0, "events  %" PRIu64 " of %" PRIu64 ", %" PRIu64 " reserved", used, most, reserved);
	size_t left = output->width - MIN(output->width, (size_t)length + 2);
	enum style style = make_bar(bar, MIN(left, (size_t)BAR_MOST), used, most, reserved, true);

	humane_duration(row_get_u64(status, "uptime"), uptime, sizeof(uptime));
	/* The reason why the guard is off is a long sentence, which `status` shows. */
	guard.text[strcspn(guard.text, ":")] = '\0';
	snprintf(text, sizeof(text), "%.100s  guard %.100s  %s  %s  up %s  userevd %.100s",
		 row_string(status, "backend").text, guard.text,
		 plural(row_get_u64(status, "connections"), "connection", "connections").text,
		 plural(row_get_u64(status, "tenants"), "tenant", "tenants").text, uptime,
		 row_string(status, "version").text);
	frame_print(output, STYLE_BOLD, text, "\n");
	snprintf(text, sizeof(text), "events %s %" PRIu64 " of %" PRIu64 ", %" PRIu64 " reserved",
		 left < BAR_INSIDE ? "" : bar, used, most, reserved);
	frame_print(output, left < BAR_INSIDE ? STYLE_PLAIN : style, text, "\n");
}

static void print_changes(const struct tenant_views *views, const struct output *output)
{
	int64_t refused = 0, lost = 0, throttled = 0;
	char text[LINE_TEXT_MAX];

	for (size_t i = 0; i < views->n; i++) {
		refused += tenant_change(&views->view[i], "refusals");
		lost += tenant_change(&views->view[i], "lost");
		throttled += tenant_change(&views->view[i], "throttled");
	}
	snprintf(text, sizeof(text), "refused %s/s  lost %s/s  throttled %s/s", rate_of(refused, views->seconds).text,
		 rate_of(lost, views->seconds).text, rate_of(throttled, views->seconds).text);
	frame_print(output,
		    lost > 0			   ? STYLE_BAD
		    : refused > 0 || throttled > 0 ? STYLE_WARNING
						   : STYLE_PLAIN,
		    text, "\n");
}

void top_frame_print(const struct top_frame *frame, const struct output *output)
{
	char text[LINE_TEXT_MAX];

	print_machine(frame, output);
	if (frame->trouble[0])
		frame_print(output, STYLE_BAD, frame->trouble, "\n");
	else
		print_changes(&frame->look.tenants, output);
	if (frame->help) {
		for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
			snprintf(text, sizeof(text), "%-8s  %s", columns[i].column.title, columns[i].help);
			frame_print(output, STYLE_PLAIN, text, "\n");
		}
		frame_print(output, STYLE_PLAIN, "A narrow terminal has the most important columns only.", "\n");
		frame_print(output, STYLE_PLAIN,
			    "e c r l t n and arrows sort; up, down and page keys scroll; ? goes back", "\n");
	} else if (frame->look.tenants.n == 0) {
		frame_print(output, STYLE_DIM, "No program is connected.", "\n");
	} else {
		tenant_views_print(&frame->look.tenants, output, columns, ARRAY_SIZE(columns), frame->first,
				   frame->most, tenant_orders[frame->order]);
	}
}

void top_frame_print_keys(const struct top_frame *frame, const struct output *output)
{
	size_t n = frame->look.tenants.n;
	char text[LINE_TEXT_MAX], orders[128] = "";
	struct text all = text_make(orders, sizeof(orders)), keys = text_make(text, sizeof(text));

	for (unsigned order = 0; order < TENANT_ORDERS; order++)
		text_printf(&all, order == frame->order ? " [%s]" : " %s", tenant_orders[order]);
	if (n > frame->most)
		text_printf(&keys, "%zu-%zu of %zu  ", MIN(frame->first + 1, n), MIN(frame->first + frame->most, n), n);
	text_printf(&keys, "q quit  ? help  sort by:");
	if (keys.length + all.length <= output->width)
		text_printf(&keys, "%s", orders);
	else
		text_printf(&keys, " %s", tenant_orders[frame->order]);
	frame_print(output, STYLE_DIM, text, "");
}
