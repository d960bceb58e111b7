/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Three lines about the machine, then a table of tenants with as many columns as fit, or an explanation of the columns. */

#include <inttypes.h>

#include "client/userevctl/top/top.h"
#include "protocol/base/text.h"

enum { LINE_TEXT_MAX = 1024 };

static void frame_print(const struct output *output, enum style style, const char *text, const char *end)
{
	char fitting[LINE_TEXT_MAX + 4];

	shorten(COLUMN_LONG, text, MAX(output->width, (size_t)5), fitting, sizeof(fitting));
	output_styled(output, style, "%s", fitting);
	fputs(end, output->file);
}

static void print_machine(const struct top_frame *frame, const struct output *output)
{
	const struct cursor status = frame->tenants.status;
	uint64_t used = row_get_u64(status, "charges"), most = row_get_u64(status, "capacity"),
		 reserved = row_get_u64(status, "reserved");
	struct safe_string guard = row_string(status, "guard");
	char numbers[96], bar[BAR_MOST + 3], text[LINE_TEXT_MAX];
	int length = snprintf(numbers, sizeof(numbers), "%" PRIu64 " of %" PRIu64 ", %" PRIu64 " reserved", used, most,
			      reserved);
	size_t left = output->width - MIN(output->width, (size_t)length + strlen("events [] "));
	enum style style = bar_make(bar, MIN(left, (size_t)BAR_MOST), used, most, reserved, true);

	/* The reason why the guard is off is a long sentence, which `status` shows. */
	guard.text[strcspn(guard.text, ":")] = '\0';
	snprintf(text, sizeof(text), "%.100s  guard %.100s  %s  %s  up %s  userevd %.100s",
		 row_string(status, "backend").text, guard.text,
		 plural(row_get_u64(status, "connections"), "connection", "connections").text,
		 plural(row_get_u64(status, "tenants"), "tenant", "tenants").text,
		 humane_duration(row_get_u64(status, "uptime")).text, row_string(status, "version").text);
	frame_print(output, STYLE_BOLD, text, "\n");
	snprintf(text, sizeof(text), "events %s %s", left < BAR_LEAST ? "" : bar, numbers);
	frame_print(output, left < BAR_LEAST ? STYLE_PLAIN : style, text, "\n");
}

void top_frame_print(const struct top_frame *frame, const struct output *output)
{
	const struct tenant_views *views = &frame->tenants;
	int64_t refused = 0, lost = 0, throttled = 0;
	char text[LINE_TEXT_MAX];

	for (size_t i = 0; i < views->n; i++) {
		refused += tenant_change(&views->view[i], "refusals");
		lost += tenant_change(&views->view[i], "lost");
		throttled += tenant_change(&views->view[i], "throttled");
	}
	snprintf(text, sizeof(text), "refused %s/s  lost %s/s  throttled %s/s", rate_of(refused, views->seconds).text,
		 rate_of(lost, views->seconds).text, rate_of(throttled, views->seconds).text);
	print_machine(frame, output);
	if (frame->trouble[0])
		frame_print(output, STYLE_BAD, frame->trouble, "\n");
	else
		frame_print(output,
			    lost > 0			   ? STYLE_BAD
			    : refused > 0 || throttled > 0 ? STYLE_WARNING
							   : STYLE_PLAIN,
			    text, "\n");
	if (frame->help) {
		tenant_columns_explain(output);
		frame_print(output, STYLE_PLAIN, "A narrow terminal has the most important columns only.", "\n");
		frame_print(output, STYLE_PLAIN,
			    "e c r l t n and arrows sort; up, down and page keys scroll; ? goes back", "\n");
	} else if (views->n == 0) {
		frame_print(output, STYLE_DIM, "No program is connected.", "\n");
	} else {
		tenant_views_print(views, output, frame->first, frame->most, tenant_orders[frame->order]);
	}
}

void top_frame_print_keys(const struct top_frame *frame, const struct output *output)
{
	size_t n = frame->tenants.n;
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
