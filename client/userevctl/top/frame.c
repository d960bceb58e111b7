/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * One picture: three lines of the machine, then a table of tenants, then the keys. Each column of the table has a rank: those
 * that matter most are there on any terminal, the others where there is room, and the one that is sorted by always. Nothing
 * is wider than the terminal or longer: what does not fit is not written.
 */

#include <inttypes.h>

#include "client/userevctl/top/top.h"
#include "protocol/base/text.h"

enum {
	HEAD_LINES = 4, /* with the titles */
	FOOT_LINES = 1,
	BAR_LEAST = 10,
	BAR_MOST = 40,
	NAME_LEAST = 12,
	NAME_USUAL = 20, /* "docker-0123456789ab", and one */
	NAME_WANTS = 60, /* columns of a terminal, before it takes the room from others */
	PATH_LEAST = 20,
	NUMBER_MAX = 24,
	LINE_MAX = 1024,
};

/* Where on the screen the next text goes. */
struct pen {
	const struct output *output;
	const struct top_frame *frame;
	size_t left; /* columns of this line */
	size_t line; /* from 1; 0: nothing is written yet */
};

static bool is_full(const struct pen *pen)
{
	return pen->frame->lines > 0 && pen->line > pen->frame->lines;
}

static void end_line(const struct pen *pen)
{
	if (pen->line == 0 || is_full(pen))
		return;
	if (pen->frame->on_screen)
		fputs("\033[K", pen->output->file);
	/* A newline behind the last line would move all others up. */
	if (!pen->frame->on_screen || pen->line < pen->frame->lines)
		putc('\n', pen->output->file);
}

static void begin_line(struct pen *pen)
{
	end_line(pen);
	pen->line++;
	pen->left = pen->frame->columns;
}

static void put(struct pen *pen, enum style style, const char *text)
{
	char fitting[LINE_MAX + 4];
	size_t width = display_width(text);

	if (is_full(pen) || (width > pen->left && pen->left < 4))
		return;
	shorten_end(text, pen->left, fitting, sizeof(fitting));
	output_styled(pen->output, style, "%s", fitting);
	pen->left -= MIN(width, pen->left);
}

static void put_blanks(struct pen *pen, size_t n)
{
	n = MIN(n, pen->left);
	if (is_full(pen))
		return;
	fprintf(pen->output->file, "%*s", (int)n, "");
	pen->left -= n;
}

static void put_number(struct pen *pen, enum style style, size_t width, const char *text)
{
	put_blanks(pen, width - MIN(width, strlen(text)));
	put(pen, style, text);
}

/* Four digits at least, then thousands: "1234", "98k", "7M". */
static void number_text(uint64_t number, size_t width, char ret[static NUMBER_MAX])
{
	static const char units[] = "kMGTPE";

	snprintf(ret, NUMBER_MAX, "%" PRIu64, number);
	for (size_t unit = 0; strlen(ret) > width && units[unit]; unit++) {
		number /= 1000;
		snprintf(ret, NUMBER_MAX, "%" PRIu64 "%c", number, units[unit]);
	}
}

static void rate_text(uint64_t change, double seconds, size_t width, char ret[static NUMBER_MAX])
{
	double rate = seconds > 0 ? (double)change / seconds : 0;

	if (seconds <= 0)
		string_copy(ret, NUMBER_MAX, "-");
	else if (change == 0)
		string_copy(ret, NUMBER_MAX, "0");
	else if (rate < 10)
		snprintf(ret, NUMBER_MAX, "%.1f", rate);
	else
		number_text((uint64_t)rate, width, ret);
}

/* How many cells of a bar: what is there at all can be seen. */
static size_t cells_of(uint64_t part, uint64_t whole, size_t width)
{
	double share = whole > 0 ? (double)part / (double)whole : 1;

	if (part == 0)
		return 0;
	return MAX((size_t)(MIN(share, 1.) * (double)width), (size_t)1);
}

static enum style fullness(uint64_t used, uint64_t most)
{
	if (used >= most)
		return used > 0 ? STYLE_BAD : STYLE_PLAIN;
	/* As the daemon warns. */
	return (double)used >= 0.8 * (double)most ? STYLE_WARNING : STYLE_GOOD;
}

static void put_repeated(struct pen *pen, enum style style, char what, size_t n)
{
	char text[LINE_MAX];

	n = MIN(n, sizeof(text) - 1);
	memset(text, what, n);
	text[n] = '\0';
	if (n > 0)
		put(pen, style, text);
}

struct bar {
	uint64_t used;
	uint64_t most;
	uint64_t reserved;
	bool at_its_end; /* where others may not go; else where nobody else may */
};

/* "[||||::::      ]" or "[||||      ::::]" */
static void put_bar(struct pen *pen, const struct bar *bar, size_t width)
{
	size_t inside = width - 2;
	size_t used = cells_of(bar->used, bar->most, inside), reserved = cells_of(bar->reserved, bar->most, inside);
	size_t marked = bar->at_its_end ? MIN(reserved, inside - used) : reserved - MIN(reserved, used);

	put(pen, STYLE_PLAIN, "[");
	put_repeated(pen, fullness(bar->used, bar->most), '|', used);
	if (bar->at_its_end)
		put_blanks(pen, inside - used - marked);
	put_repeated(pen, STYLE_NAME, ':', marked);
	if (!bar->at_its_end)
		put_blanks(pen, inside - used - marked);
	put(pen, STYLE_PLAIN, "]");
}

/* The machine. */

static void put_facts(struct pen *pen, struct cursor status)
{
	struct safe_string guard = row_string(status, "guard");
	char uptime[64], text[LINE_MAX];

	humane_duration(row_get_u64(status, "uptime"), uptime, sizeof(uptime));
	/* Why it is off is a sentence, for `status`. */
	guard.text[strcspn(guard.text, ":")] = '\0';
	put(pen, STYLE_BOLD, row_string(status, "backend").text);
	snprintf(text, sizeof(text), "  guard %.100s  %s  %s  up %s  userevd %.100s", guard.text,
		 plural(row_get_u64(status, "connections"), "connection", "connections").text,
		 plural(row_get_u64(status, "tenants"), "tenant", "tenants").text, uptime,
		 row_string(status, "version").text);
	put(pen, STYLE_PLAIN, text);
}

static void put_room(struct pen *pen, struct cursor status)
{
	struct bar bar = {
		.used = row_get_u64(status, "charges"),
		.most = row_get_u64(status, "capacity"),
		.reserved = row_get_u64(status, "reserved"),
		.at_its_end = true,
	};
	static const char title[] = "events ";
	char text[LINE_MAX];
	int whole, length;

	length = snprintf(text, sizeof(text), " %" PRIu64 " of %" PRIu64, bar.used, bar.most);
	whole = length + snprintf(text + length, sizeof(text) - (size_t)length, ", %" PRIu64 " reserved", bar.reserved);
	if (strlen(title) + BAR_LEAST + (size_t)whole > pen->left)
		text[whole = length] = '\0';
	put(pen, STYLE_PLAIN, title);
	if (pen->left >= (size_t)whole + BAR_LEAST)
		put_bar(pen, &bar, MIN(pen->left - (size_t)whole, (size_t)BAR_MOST + 2));
	put(pen, STYLE_PLAIN, text);
}

static struct tenant_counts sum_changes(const struct tenant_views *views)
{
	struct tenant_counts sum = { 0 };

	for (size_t i = 0; i < views->n; i++) {
		sum.refused += views->view[i].change.refused;
		sum.lost += views->view[i].change.lost;
		sum.throttled += views->view[i].change.throttled;
	}
	return sum;
}

static void put_rate(struct pen *pen, const char *before, const char *what, uint64_t change, double seconds,
		     enum style style)
{
	char number[NUMBER_MAX], text[64];

	rate_text(change, seconds, NUMBER_MAX, number);
	snprintf(text, sizeof(text), "%s%s %s/s", before, what, number);
	put(pen, change > 0 ? style : STYLE_PLAIN, text);
}

static void put_changes(struct pen *pen, const struct top_look *look)
{
	const struct tenant_counts sum = sum_changes(&look->tenants);

	put_rate(pen, "", "refused", sum.refused, look->seconds, STYLE_WARNING);
	put_rate(pen, "  ", "lost", sum.lost, look->seconds, STYLE_BAD);
	put_rate(pen, "  ", "throttled", sum.throttled, look->seconds, STYLE_WARNING);
}

static void put_machine(struct pen *pen, const struct top_frame *frame)
{
	const struct cursor status = top_look_status(frame->look);

	begin_line(pen);
	put_facts(pen, status);
	begin_line(pen);
	put_room(pen, status);
	begin_line(pen);
	if (frame->trouble)
		put(pen, STYLE_BAD, frame->trouble);
	else
		put_changes(pen, frame->look);
}

/* The tenants. */

enum top_column {
	TOP_NAME,
	TOP_BAR,
	TOP_EVENTS,
	TOP_MOST,
	TOP_CHANGE,
	TOP_RESERVED,
	TOP_LINGERING,
	TOP_CONNECTIONS,
	TOP_FILES,
	TOP_REFUSED,
	TOP_REFUSED_RATE,
	TOP_LOST,
	TOP_LOST_RATE,
	TOP_THROTTLED,
	TOP_THROTTLED_RATE,
	TOP_TENANT,
	TOP_COLUMNS
};

static const struct {
	const char *title;
	size_t width;
	unsigned rank; /* the smaller, the more it matters */
	const char *help;
} top_columns[TOP_COLUMNS] = {
	[TOP_NAME] = { "NAME", NAME_LEAST, 0, "its container or unit" },
	[TOP_BAR] = { "USED", BAR_LEAST + 2, 2, "its events of its maximum, or of the machine; : reserved" },
	[TOP_EVENTS] = { "EVENTS", 6, 1, "events that it holds" },
	[TOP_MOST] = { "MAX", 5, 5, "events that it may hold" },
	[TOP_CHANGE] = { "+/-", 5, 11, "events since the last look" },
	[TOP_RESERVED] = { "RESERVE", 7, 10, "events that are reserved for it" },
	[TOP_LINGERING] = { "LINGER", 6, 8, "events that it released, and has open somewhere" },
	[TOP_CONNECTIONS] = { "CONN", 5, 4, "connections" },
	[TOP_FILES] = { "FILES", 5, 14, "data files that are open, also those that linger" },
	[TOP_REFUSED] = { "REFUSED", 7, 7, "requests that were refused" },
	[TOP_REFUSED_RATE] = { "REF/S", 5, 3, "the same, by the second" },
	[TOP_LOST] = { "LOST", 6, 12, "records that were lost" },
	[TOP_LOST_RATE] = { "LOST/S", 6, 6, "the same, by the second" },
	[TOP_THROTTLED] = { "THROT", 5, 13, "requests that had to wait" },
	[TOP_THROTTLED_RATE] = { "THR/S", 5, 9, "the same, by the second" },
	[TOP_TENANT] = { "TENANT", PATH_LEAST, 15, "the path of its cgroup" },
};

/* 0: the column is not there. */
struct widths {
	size_t of[TOP_COLUMNS];
	size_t left; /* of the line */
};

static enum top_column column_of(enum tenant_order order)
{
	static const enum top_column columns[TENANT_ORDERS] = {
		[TENANTS_BY_EVENTS] = TOP_EVENTS,	[TENANTS_BY_CONNECTIONS] = TOP_CONNECTIONS,
		[TENANTS_BY_REFUSALS] = TOP_REFUSED,	[TENANTS_BY_LOST] = TOP_LOST,
		[TENANTS_BY_THROTTLED] = TOP_THROTTLED, [TENANTS_BY_NAME] = TOP_NAME,
	};

	return columns[order];
}

static void add_column(struct widths *widths, enum top_column column, size_t width)
{
	bool first = column == TOP_NAME;
	size_t gap = !first;

	if (widths->of[column] > 0 || width + gap > widths->left)
		return;
	widths->of[column] = width;
	widths->left -= width + gap;
}

static void add_by_rank(struct widths *widths)
{
	for (unsigned rank = 1; rank < TOP_COLUMNS; rank++)
		for (enum top_column column = 0; column < TOP_COLUMNS; column++)
			if (top_columns[column].rank == rank)
				add_column(widths, column, top_columns[column].width);
}

static void widen(struct widths *widths, enum top_column column, size_t wanted)
{
	size_t more = wanted - MIN(wanted, widths->of[column]);

	if (widths->of[column] == 0)
		return;
	more = MIN(more, widths->left);
	widths->of[column] += more;
	widths->left -= more;
}

static size_t longest_name(const struct tenant_views *views)
{
	size_t longest = NAME_LEAST;

	for (size_t i = 0; i < views->n; i++)
		longest = MAX(longest, display_width(make_safe(views->view[i].name.text).text));
	return longest;
}

static struct widths choose_widths(const struct top_frame *frame)
{
	struct widths widths = { .left = frame->columns };
	size_t longest = longest_name(&frame->look->tenants);
	enum top_column sorted = column_of(frame->order);

	add_column(&widths, TOP_NAME,
		   frame->columns < NAME_WANTS ? MIN((size_t)NAME_LEAST, frame->columns)
					       : MIN(longest, (size_t)NAME_USUAL));
	add_column(&widths, sorted, top_columns[sorted].width);
	add_by_rank(&widths);
	widen(&widths, TOP_NAME, longest);
	widen(&widths, TOP_TENANT, SIZE_MAX);
	widen(&widths, TOP_BAR, BAR_MOST + 2);
	return widths;
}

static void put_text(struct pen *pen, enum style style, size_t width, const char *text)
{
	char fitting[LINE_MAX + 4];
	size_t taken;

	/* Narrower, and there would be no middle. */
	if (width < 5)
		return;
	shorten_middle(text, width, fitting, sizeof(fitting));
	taken = display_width(fitting);
	put(pen, style, fitting);
	/* Nothing stands behind a column that goes to the end of the line. */
	if (width - MIN(width, taken) < pen->left)
		put_blanks(pen, width - MIN(width, taken));
}

static void put_count(struct pen *pen, enum style style, size_t width, uint64_t number)
{
	char text[NUMBER_MAX] = "-";

	if (number != TENANT_NO_LIMIT)
		number_text(number, width, text);
	put_number(pen, number > 0 ? style : STYLE_PLAIN, width, text);
}

static void put_change_rate(struct pen *pen, enum style style, size_t width, uint64_t change, double seconds)
{
	char text[NUMBER_MAX];

	rate_text(change, seconds, width, text);
	put_number(pen, change > 0 ? style : STYLE_DIM, width, text);
}

static void put_difference(struct pen *pen, size_t width, int64_t change, double seconds)
{
	char text[NUMBER_MAX + 1] = "-", number[NUMBER_MAX];

	number_text((uint64_t)(change < 0 ? -change : change), width - 1, number);
	if (seconds > 0)
		snprintf(text, sizeof(text), "%s%s", change > 0 ? "+" : change < 0 ? "-" : "", number);
	put_number(pen, STYLE_DIM, width, text);
}

static void put_tenant_bar(struct pen *pen, const struct tenant_view *view, size_t width)
{
	bool limited = view->events_max != TENANT_NO_LIMIT;
	const struct bar bar = {
		.used = view->events,
		.most = limited ? view->events_max : row_get_u64(top_look_status(pen->frame->look), "capacity"),
		.reserved = view->reserved,
	};

	put_bar(pen, &bar, width);
}

static void put_cell(struct pen *pen, const struct tenant_view *view, enum top_column column, size_t width)
{
	double seconds = pen->frame->trouble ? 0 : pen->frame->look->seconds;
	char path[LINE_MAX];
	struct text text = text_make(path, sizeof(path));

	switch (column) {
	case TOP_NAME:
		put_text(pen, STYLE_NAME, width, make_safe(view->name.text).text);
		break;
	case TOP_BAR:
		put_tenant_bar(pen, view, width);
		break;
	case TOP_EVENTS:
		put_count(pen, STYLE_BOLD, width, view->events);
		break;
	case TOP_MOST:
		put_count(pen, STYLE_PLAIN, width, view->events_max);
		break;
	case TOP_CHANGE:
		put_difference(pen, width, view->events_change, seconds);
		break;
	case TOP_RESERVED:
		put_count(pen, STYLE_PLAIN, width, view->reserved);
		break;
	case TOP_LINGERING:
		put_count(pen, STYLE_PLAIN, width, view->lingering);
		break;
	case TOP_CONNECTIONS:
		put_count(pen, STYLE_PLAIN, width, view->connections);
		break;
	case TOP_FILES:
		put_count(pen, STYLE_PLAIN, width, view->files);
		break;
	case TOP_REFUSED:
		put_count(pen, STYLE_WARNING, width, view->counts.refused);
		break;
	case TOP_REFUSED_RATE:
		put_change_rate(pen, STYLE_WARNING, width, view->change.refused, seconds);
		break;
	case TOP_LOST:
		put_count(pen, STYLE_BAD, width, view->counts.lost);
		break;
	case TOP_LOST_RATE:
		put_change_rate(pen, STYLE_BAD, width, view->change.lost, seconds);
		break;
	case TOP_THROTTLED:
		put_count(pen, STYLE_WARNING, width, view->counts.throttled);
		break;
	case TOP_THROTTLED_RATE:
		put_change_rate(pen, STYLE_WARNING, width, view->change.throttled, seconds);
		break;
	case TOP_TENANT:
		text_safe(&text, view->path, view->path_length);
		put_text(pen, STYLE_DIM, width, path);
		break;
	case TOP_COLUMNS:
		break;
	}
}

static bool is_text(enum top_column column)
{
	return column == TOP_NAME || column == TOP_BAR || column == TOP_TENANT;
}

static void put_titles(struct pen *pen, const struct widths *widths)
{
	begin_line(pen);
	for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
		size_t width = widths->of[column];
		enum style style = column == column_of(pen->frame->order) ? STYLE_GOOD : STYLE_BOLD;

		if (width == 0)
			continue;
		put_blanks(pen, column != TOP_NAME);
		if (is_text(column))
			put_text(pen, style, width, top_columns[column].title);
		else
			put_number(pen, style, width, top_columns[column].title);
	}
}

static void put_tenant(struct pen *pen, const struct widths *widths, const struct tenant_view *view)
{
	begin_line(pen);
	for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
		if (widths->of[column] == 0)
			continue;
		put_blanks(pen, column != TOP_NAME);
		put_cell(pen, view, column, widths->of[column]);
	}
}

size_t top_frame_room(const struct top_frame *frame)
{
	size_t taken = HEAD_LINES + (frame->on_screen ? FOOT_LINES : 0);

	if (frame->lines == 0)
		return SIZE_MAX;
	return frame->lines - MIN(frame->lines, taken);
}

static void put_tenants(struct pen *pen, const struct top_frame *frame)
{
	const struct tenant_views *views = &frame->look->tenants;
	const struct widths widths = choose_widths(frame);
	size_t room = top_frame_room(frame);

	put_titles(pen, &widths);
	for (size_t i = frame->first; i < views->n && i - frame->first < room; i++)
		put_tenant(pen, &widths, &views->view[i]);
	if (views->n == 0 && room > 0) {
		begin_line(pen);
		put(pen, STYLE_DIM, "No program is connected.");
	}
}

/* What the columns are, those for which there is no room included. */
static void put_help(struct pen *pen, const struct top_frame *frame)
{
	const struct widths widths = choose_widths(frame);
	char text[160];

	for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
		begin_line(pen);
		snprintf(text, sizeof(text), "%-8s  %s%s", top_columns[column].title, top_columns[column].help,
			 widths.of[column] > 0 ? "" : " (needs a wider terminal)");
		put(pen, widths.of[column] > 0 ? STYLE_PLAIN : STYLE_DIM, text);
	}
	begin_line(pen);
	put(pen, STYLE_PLAIN, "e c r l t n and arrows sort; up, down and page keys scroll; ? goes back");
}

/* The keys. */

static void put_position(struct pen *pen, const struct top_frame *frame)
{
	size_t n = frame->look->tenants.n, room = top_frame_room(frame);
	char text[96];

	if (n <= room)
		return;
	snprintf(text, sizeof(text), "%zu-%zu of %zu  ", MIN(frame->first + 1, n), MIN(frame->first + room, n), n);
	put(pen, STYLE_BOLD, text);
}

static void put_keys(struct pen *pen, const struct top_frame *frame)
{
	char text[160];
	struct text keys = text_make(text, sizeof(text));

	text_printf(&keys, "q quit  ? help  sort by:");
	for (enum tenant_order order = 0; order < TENANT_ORDERS; order++)
		text_printf(&keys, order == frame->order ? " [%s]" : " %s", tenant_order_names[order]);
	if (keys.length > pen->left) {
		keys = text_make(text, sizeof(text));
		text_printf(&keys, "q quit  ? help  sort by: %s", tenant_order_names[frame->order]);
	}
	put(pen, STYLE_DIM, text);
}

static void put_foot(struct pen *pen, const struct top_frame *frame)
{
	while (pen->line + 1 < frame->lines)
		begin_line(pen);
	begin_line(pen);
	put_position(pen, frame);
	put_keys(pen, frame);
}

void top_frame_print(const struct output *output, const struct top_frame *frame)
{
	struct pen pen = { .output = output, .frame = frame };

	if (frame->on_screen)
		fputs("\033[H", output->file);
	put_machine(&pen, frame);
	if (frame->help)
		put_help(&pen, frame);
	else
		put_tenants(&pen, frame);
	if (frame->on_screen)
		put_foot(&pen, frame);
	end_line(&pen);
	if (frame->on_screen)
		fputs("\033[J", output->file);
}
