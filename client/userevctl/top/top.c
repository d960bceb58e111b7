/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * top: who uses it, live. On a terminal a loop of three things that may come, in whichever order: keys, signals, packets of the
 * daemon. It asks in time, and never waits for an answer: a daemon that hangs or goes away is something to show.
 */

#include <poll.h>
#include <time.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/show/tenants.h"
#include "client/userevctl/top/top.h"

enum {
	OPTION_INTERVAL = 1,
	OPTION_SORT,
	OPTION_BATCH,
	OPTION_ONCE,
	INTERVAL_MAX = 3600, /* seconds */
	BATCH_COLUMNS = 120, /* of a frame that goes nowhere in particular */
};

struct top {
	struct ctl *ctl;
	struct top_screen screen;
	struct top_source source;
	struct top_look look;
	struct top_keys keys;
	enum tenant_order order;
	size_t first; /* of the tenants that are shown */
	size_t columns, lines;
	uint64_t interval; /* ms */
	uint64_t asked;	   /* ms on the monotonic clock */
	uint64_t batch;	   /* frames; 0: a terminal */
	char trouble[512];
	bool help;
	bool stale; /* what is seen */
	int signal; /* that ended it */
	bool over;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct top_frame frame_of(const struct top *top)
{
	return (struct top_frame){
		.look = &top->look,
		.order = top->order,
		.first = top->first,
		.columns = top->columns,
		.lines = top->lines,
		.trouble = top->trouble[0] ? top->trouble : NULL,
		.on_screen = top->batch == 0,
		.help = top->help,
	};
}

/* Into memory, and from there in one write: no half of a frame is ever seen. */
static int draw(struct top *top)
{
	_cleanup_(freep) char *text = NULL;
	struct output output = top->ctl->output;
	struct top_frame frame = frame_of(top);
	size_t size = 0;
	int r;

	output.file = open_memstream(&text, &size);
	if (!output.file)
		return -errno;
	top_frame_print(&output, &frame);
	if (fclose(output.file) != 0)
		return -ENOMEM;
	r = top_screen_write(&top->screen, text, size);
	/* The next frame is whole again. */
	return r == -EAGAIN ? 0 : r;
}

static void clamp(struct top *top)
{
	const struct top_frame frame = frame_of(top);
	size_t n = top->look.tenants.n, room = top_frame_room(&frame);

	top->first = MIN(top->first, n - MIN(n, room));
}

static void sort_by(struct top *top, enum tenant_order order)
{
	top->order = order;
	tenant_views_sort(&top->look.tenants, order);
}

static void scroll(struct top *top, bool down, size_t by)
{
	top->first = down ? top->first + by : top->first - MIN(top->first, by);
}

static void obey_key(struct top *top, enum top_key key)
{
	const struct top_frame frame = frame_of(top);
	size_t page = MAX(top_frame_room(&frame), (size_t)1);

	if (key == TOP_KEY_NONE)
		return;
	/* Any other key goes back to the tenants, too. */
	top->help = key == TOP_KEY_HELP && !top->help;
	switch (key) {
	case TOP_KEY_NONE:
	case TOP_KEY_HELP:
		break;
	case TOP_KEY_QUIT:
		top->over = true;
		break;
	case TOP_KEY_LEFT:
		sort_by(top, (top->order + TENANT_ORDERS - 1) % TENANT_ORDERS);
		break;
	case TOP_KEY_RIGHT:
		sort_by(top, (top->order + 1) % TENANT_ORDERS);
		break;
	case TOP_KEY_UP:
	case TOP_KEY_DOWN:
		scroll(top, key == TOP_KEY_DOWN, 1);
		break;
	case TOP_KEY_PAGE_UP:
	case TOP_KEY_PAGE_DOWN:
		scroll(top, key == TOP_KEY_PAGE_DOWN, page);
		break;
	default:
		sort_by(top, (enum tenant_order)(key - TOP_KEY_ORDER));
	}
}

static void read_keys(struct top *top)
{
	char bytes[64];
	ssize_t n = read(top->screen.in, bytes, sizeof(bytes));

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		top->over = true; /* the terminal is gone */
	for (ssize_t i = 0; i < n && !top->over; i++)
		obey_key(top, top_keys_take(&top->keys, bytes[i]));
	top->stale = true;
}

/* --width may make it narrower, but not wider than it is. */
static void measure(struct top *top)
{
	unsigned wanted = top->ctl->width;

	top_screen_size(&top->screen, &top->columns, &top->lines);
	if (wanted > 0)
		top->columns = MIN(top->columns, wanted);
}

static void obey_signal(struct top *top, int signal_number)
{
	switch (signal_number) {
	case SIGWINCH:
		break;
	case SIGTSTP:
		top_screen_stop(&top->screen);
		break;
	case SIGCONT:
		top_screen_enter(&top->screen);
		break;
	case SIGINT:
		top->over = true;
		break;
	default:
		top->signal = signal_number;
		top->over = true;
	}
	measure(top);
	top->stale = true;
}

static void read_signals(struct top *top)
{
	int signal_number;

	while (!top->over && (signal_number = top_screen_signal(&top->screen)) > 0)
		obey_signal(top, signal_number);
}

/* What is wrong, in one line; the numbers of the last look stay. */
static void note_trouble(struct top *top, int error, const char *sentence)
{
	if (control_nobody(error) || error == -ECONNRESET || error == -EPIPE)
		snprintf(top->trouble, sizeof(top->trouble), "The daemon has gone. Trying again.");
	else if (error == -EREMOTEIO)
		snprintf(top->trouble, sizeof(top->trouble), "The daemon refused it: %s.", sentence);
	else if (error == -ETIMEDOUT || error == -EAGAIN)
		snprintf(top->trouble, sizeof(top->trouble), "The daemon does not answer. Waiting.");
	else
		snprintf(top->trouble, sizeof(top->trouble), "Trouble with the daemon: %s. Trying again.",
			 strerror(-error));
	top->stale = true;
}

static void take_packet(struct top *top)
{
	int r = top_source_take(&top->source, 0, &top->look);

	if (r < 0)
		note_trouble(top, r, top->source.sentence);
	if (r <= 0)
		return;
	top->trouble[0] = '\0';
	top->stale = true;
	sort_by(top, top->order);
}

static void ask(struct top *top)
{
	int r;

	top->asked = now_ms();
	if (top_source_waits(&top->source)) {
		note_trouble(top, -ETIMEDOUT, NULL);
		return;
	}
	r = top_source_ask(&top->source);
	if (r < 0)
		note_trouble(top, r, NULL);
}

static int wait_for_anything(struct top *top)
{
	struct pollfd wanted[] = {
		{ .fd = top->screen.in, .events = POLLIN },
		{ .fd = top->screen.signals, .events = POLLIN },
		{ .fd = top_source_fd(&top->source), .events = POLLIN },
	};
	uint64_t now = now_ms(), next = top->asked + top->interval;
	int n = poll(wanted, ARRAY_SIZE(wanted), (int)(next - MIN(next, now)));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (wanted[1].revents) {
		/* We may have been stopped meanwhile, and others may have read what was typed: ask again. */
		read_signals(top);
		return 0;
	}
	if (wanted[0].revents)
		read_keys(top);
	if (wanted[2].revents)
		take_packet(top);
	if (now_ms() >= next)
		ask(top);
	return 0;
}

static int watch(struct top *top)
{
	int r = 0;

	measure(top);
	top->asked = now_ms();
	top->stale = true;
	while (r == 0 && !top->over) {
		clamp(top);
		r = top->stale ? draw(top) : 0;
		top->stale = false;
		if (r == 0)
			r = wait_for_anything(top);
	}
	return r;
}

/* The first look: what is wrong now is said as every command says it, and not on another screen. */
static int look_once(struct top *top)
{
	int r = top_source_ask(&top->source);

	while (r == 0)
		r = top_source_take(&top->source, CONTROL_PATIENCE_MS, &top->look);
	if (r == -EREMOTEIO)
		ctl_error("the daemon refused it: %s.", top->source.sentence);
	if (r < 0)
		return control_explain(top->ctl->control_socket, r, NULL);
	sort_by(top, top->order);
	return EXIT_DONE;
}

static int run_on_screen(struct top *top)
{
	int r = look_once(top);

	if (r != EXIT_DONE)
		return r;
	r = top_screen_open(&top->screen, STDIN_FILENO, fileno(top->ctl->output.file));
	if (r == 0) {
		top_screen_enter(&top->screen);
		r = watch(top);
		top_screen_close(&top->screen);
	}
	if (top->signal > 0) {
		signal(top->signal, SIG_DFL);
		raise(top->signal);
	}
	return r < 0 ? ctl_output_failed(r) : EXIT_DONE;
}

static void print_json(const struct top *top)
{
	struct json json = { .file = top->ctl->output.file };

	json_begin(&json, '{');
	json_key(&json, "status", 6);
	json_row(&json, top_look_status(&top->look));
	json_key(&json, "tenants", 7);
	json_begin(&json, '[');
	for (size_t i = 0; i < top->look.tenants.n; i++)
		ctl_tenant_json(&json, &top->look.tenants.view[i]);
	json_end(&json, ']');
	json_end(&json, '}');
	putc('\n', json.file);
}

static int print_frame(const struct top *top)
{
	const struct top_frame frame = frame_of(top);

	if (top->ctl->json)
		print_json(top);
	else
		top_frame_print(&top->ctl->output, &frame);
	return ctl_finish(top->ctl);
}

/* Until it is time for the next frame; false: nobody reads what we print any more. */
static bool wait_for_reader(const struct top *top)
{
	struct pollfd reader = { .fd = fileno(top->ctl->output.file) };
	uint64_t end = now_ms() + top->interval, now;

	while ((now = now_ms()) < end)
		if (poll(&reader, 1, (int)(end - now)) > 0)
			return false;
	return true;
}

static int run_batch(struct top *top)
{
	int r = EXIT_DONE;

	top->columns = top->ctl->output.width > 0 ? top->ctl->output.width : BATCH_COLUMNS;
	for (uint64_t i = 0; r == EXIT_DONE && i < top->batch; i++) {
		if (i > 0 && !wait_for_reader(top))
			break;
		if (i > 0 && !top->ctl->json)
			putc('\n', top->ctl->output.file);
		r = look_once(top);
		if (r == EXIT_DONE)
			r = print_frame(top);
	}
	return r;
}

static bool has_screen(const struct ctl *ctl)
{
	const char *terminal = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(fileno(ctl->output.file)) && !ctl->json && terminal && terminal[0] &&
	       !streq(terminal, "dumb");
}

static void read_options(struct top *top)
{
	const char *value;
	int option;

	while ((option = ctl_next_option(top->ctl, &value)) != 0) {
		switch (option) {
		case OPTION_INTERVAL:
			top->interval = ctl_number("--interval", value, 1, INTERVAL_MAX) * 1000;
			break;
		case OPTION_SORT:
			top->order = ctl_tenant_order(value);
			break;
		case OPTION_BATCH:
			top->batch = ctl_number("--batch", value, 1, UINT32_MAX);
			break;
		case OPTION_ONCE:
			top->batch = 1;
			break;
		}
	}
	ctl_expect_arguments(top->ctl, 0, 0);
	if (top->batch == 0 && !has_screen(top->ctl))
		top->batch = 1;
}

static int top_run(struct ctl *ctl)
{
	struct top top = {
		.ctl = ctl,
		.source = { .path = ctl->control_socket },
		.order = TENANTS_BY_EVENTS,
		.interval = 1000,
	};
	int r;

	read_options(&top);
	r = top.batch > 0 ? run_batch(&top) : run_on_screen(&top);
	top_source_deinit(&top.source);
	top_look_deinit(&top.look);
	return r;
}

static const struct ctl_option top_options[] = {
	{ "interval", "SECONDS", "between two looks (default 1)", OPTION_INTERVAL },
	{ "sort", "KEY", TENANT_ORDERS_IN_WORDS, OPTION_SORT },
	{ "batch", "N", "print N plain frames", OPTION_BATCH },
	{ "once", NULL, "print one, as where there is no terminal", OPTION_ONCE },
	{ 0 },
};

const struct command command_top = {
	.name = "top",
	.arguments = "",
	.summary = "the same live, with bars; q quits",
	.help = "Shows the machine and its tenants, again each second: bars of what they use of\n"
		"their maximum (||||, what is reserved and unused ::::), and what changed since\n"
		"the last look. The first letters of events, connections, refusals, lost,\n"
		"throttled and name sort by these, or left and right do; up, down and the page\n"
		"keys scroll; ? tells what the columns are; q or Ctrl-C quits.",
	.options = top_options,
	.run = top_run,
};
