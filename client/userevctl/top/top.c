/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * top: the tenants, live. On a terminal a loop waits for keys and signals, and asks the daemon at each interval. It waits
 * LOOK_MS for an answer: if the daemon hangs or goes away, the screen shows that, and keys still work.
 */

#include <poll.h>
#include <sys/ioctl.h>

#include "client/userevctl/top/top.h"
#include "protocol/base/text.h"

enum { BATCH_COLUMNS = 120 /* without a terminal */, LOOK_MS = 500 };

struct top {
	struct ctl *ctl;
	struct top_frame frame;
	const char *sort;
	uint64_t interval; /* s */
	uint64_t batch;	   /* frames; 0: a terminal */
	bool once;
	bool over;
	int signals; /* fd */
};

/* 0 or a negative errno; the numbers of the last look stay then. */
static int top_look(struct top *top, int timeout)
{
	struct tenant_views next = { .time = ctl_now_ns() }, *shown = &top->frame.tenants;
	_cleanup_(control_freep) struct control *control = NULL;
	const char *path = top->ctl->control_socket;
	struct cursor row;
	int r = control_ask_status(path, timeout, &next.status);

	if (r == 0)
		r = control_request(path, KIND_TENANTS, 0, NULL, 0, &control);
	if (r == 0)
		control->timeout = timeout;
	while (r >= 0 && (r = control_next_row(control, &row)) > 0)
		tenant_views_add(&next, row);
	if (r < 0) {
		tenant_views_deinit(&next);
		return r;
	}
	if (shown->status.at)
		tenant_views_compare(&next, shown);
	tenant_views_sort(&next, tenant_orders[top->frame.order]);
	tenant_views_deinit(shown);
	*shown = next;
	return 0;
}

/* --- The screen. --- */

/* A frame goes out in one write, so that no part of it is seen alone. */
static int top_draw(struct top *top)
{
	_cleanup_(freep) char *lines = NULL, *text = NULL;
	struct output output = top->ctl->output;
	size_t lines_size = 0, size = 0, line = 0, height, n = top->frame.tenants.n;
	struct winsize window = { 0 };
	const char *at, *end;
	FILE *screen;
	int r;

	ioctl(fileno(output.file), TIOCGWINSZ, &window);
	height = window.ws_row > 0 ? window.ws_row : 24;
	top->frame.most = height - MIN(height, (size_t)TOP_HEAD_LINES + TOP_FOOT_LINES);
	top->frame.first = MIN(top->frame.first, n - MIN(n, top->frame.most));
	output.terminal = true;
	output.width = window.ws_col > 0 ? window.ws_col : 80;
	/* --width may make the frame narrower than the terminal, but not wider. */
	if (output.columns > 0)
		output.width = MIN(output.width, (size_t)output.columns);
	output.file = must(open_memstream(&lines, &lines_size));
	top_frame_print(&top->frame, &output);
	fclose(output.file);
	output.file = screen = must(open_memstream(&text, &size));
	fputs("\033[H", screen);
	/* All lines that fit, and blank ones up to the last line. */
	for (at = lines; line + 1 < height || line == 0; line++, at = *end ? end + 1 : end) {
		end = strchrnul(at, '\n');
		fprintf(screen, "%.*s\033[K%s", (int)(end - at), at, height > 1 ? "\n" : "");
	}
	if (height > 1)
		top_frame_print_keys(&top->frame, &output);
	fputs("\033[K\033[J", screen);
	fclose(screen);
	r = top_screen_write(text, size);
	/* The next frame is complete again. */
	return r == -EAGAIN ? 0 : r;
}

static void obey_key(struct top *top, int key)
{
	struct top_frame *frame = &top->frame;
	size_t page = MAX(frame->most, (size_t)1);
	unsigned order = 0;

	while (order < TENANT_ORDERS && key != tenant_orders[order][0])
		order++;
	if (key == 'q')
		top->over = true;
	else if (key == KEY_LEFT || key == KEY_RIGHT)
		frame->order = (frame->order + (key == KEY_LEFT ? TENANT_ORDERS - 1 : 1)) % TENANT_ORDERS;
	else if (key == KEY_UP || key == KEY_PAGE_UP)
		frame->first -= MIN(frame->first, key == KEY_UP ? 1 : page);
	else if (key == KEY_DOWN || key == KEY_PAGE_DOWN)
		frame->first += key == KEY_DOWN ? 1 : page;
	else if (order < TENANT_ORDERS)
		frame->order = order;
	else if (key != '?' && key != 'h')
		return;
	/* Any other key goes back to the tenants, too. */
	frame->help = (key == '?' || key == 'h') && !frame->help;
}

/* Waits for keys and signals until that time: 0 or a negative errno. */
static int top_wait(struct top *top, uint64_t until)
{
	struct pollfd wanted[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = top->signals, .events = POLLIN },
	};
	uint64_t now = ctl_now_ns();
	char bytes[64];
	const char *at = bytes;
	ssize_t n = 0;
	int number;

	if (poll(wanted, ARRAY_SIZE(wanted), (int)((until - MIN(until, now)) / NS_PER_MS) + 1) < 0)
		return errno == EINTR ? 0 : -errno;
	while (wanted[1].revents && !top->over && (number = signals_next(top->signals)) > 0) {
		if (number == SIGTSTP)
			top_screen_stop();
		else if (number == SIGCONT)
			top_screen_enter();
		else if (number != SIGWINCH)
			top->over = true;
		if (top->over && number != SIGINT)
			top->ctl->signal = number;
	}
	/* While top was stopped the shell may have read the keys: poll() again. */
	if (!wanted[1].revents && wanted[0].revents) {
		n = read(STDIN_FILENO, bytes, sizeof(bytes));
		top->over = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN); /* the terminal is gone */
	}
	while (n > 0 && at < bytes + n && !top->over)
		obey_key(top, top_key_take(&at, bytes + n));
	tenant_views_sort(&top->frame.tenants, tenant_orders[top->frame.order]);
	return 0;
}

static int run_on_screen(struct top *top)
{
	/* The errors of the first look are printed as those of any command, not on the other screen. */
	int r = top_look(top, CONTROL_TIMEOUT_MS), error;
	uint64_t due = ctl_now_ns() + top->interval * NS_PER_S;
	struct text trouble;

	if (r < 0)
		return control_explain(top->ctl->control_socket, r);
	r = top->signals = top_screen_open(fileno(top->ctl->output.file));
	if (r >= 0)
		top_screen_enter();
	for (r = MIN(r, 0); r == 0 && !top->over;) {
		r = top_draw(top);
		if (r == 0)
			r = top_wait(top, due);
		if (r < 0 || top->over || ctl_now_ns() < due)
			continue;
		error = top_look(top, LOOK_MS);
		due = ctl_now_ns() + top->interval * NS_PER_S;
		trouble = text_make(top->frame.trouble, sizeof(top->frame.trouble));
		if (error < 0) {
			top->frame.tenants.seconds = 0;
			text_printf(&trouble, "The daemon does not answer (%s). Trying again.",
				    error == -EREMOTEIO ? control_refusal.sentence : strerror(-error));
		}
	}
	top_screen_leave();
	return r < 0 ? ctl_output_failed(r) : EXIT_DONE;
}

static int run_batch(struct top *top)
{
	struct output output = top->ctl->output;
	struct json json = { .file = output.file };
	int r = EXIT_DONE;

	output.terminal = true;
	output.width = output.width > 0 ? output.width : BATCH_COLUMNS;
	top->frame.most = SIZE_MAX;
	for (uint64_t i = 0; r == EXIT_DONE && i < top->batch; i++) {
		/* An event without having asked for one: the reader has closed the pipe. */
		if (i > 0 && poll(&(struct pollfd){ .fd = fileno(output.file) }, 1, (int)(top->interval * 1000)) > 0)
			break;
		if (i > 0 && !output.json)
			putc('\n', output.file);
		r = top_look(top, CONTROL_TIMEOUT_MS);
		if (r < 0)
			return control_explain(top->ctl->control_socket, r);
		if (output.json) {
			json_begin(&json, '{');
			json_put_key(&json, "status");
			json_row(&json, top->frame.tenants.status);
			json_put_key(&json, "tenants");
			tenant_views_json(&top->frame.tenants, &json);
			json_end(&json, '}');
		} else {
			top_frame_print(&top->frame, &output);
		}
		r = ctl_finish(top->ctl);
	}
	return r;
}

static int top_run(struct ctl *ctl)
{
	struct top top = { .ctl = ctl, .interval = 1 };
	const char *term = getenv("TERM");
	int r;

	options_read(ctl, &top, 0, 0);
	while (top.sort && !streq(top.sort, tenant_orders[top.frame.order]))
		top.frame.order++;
	if (top.once || (top.batch == 0 && (!isatty(STDIN_FILENO) || !isatty(fileno(ctl->output.file)) ||
					    ctl->output.json || !term || !term[0] || streq(term, "dumb"))))
		top.batch = 1;
	r = top.batch > 0 ? run_batch(&top) : run_on_screen(&top);
	tenant_views_deinit(&top.frame.tenants);
	return r;
}

COMMAND(top, "", "",
	OPTIONS(NUMBER_ROW("interval", "SECONDS", struct top, interval, 1, 3600, "between two looks (default 1)"),
		TENANT_SORT_ROW(offsetof(struct top, sort)),
		NUMBER_ROW("batch", "N", struct top, batch, 1, UINT32_MAX, "print N frames as plain text"),
		FLAG_ROW("once", struct top, once, "print one; the default without a terminal")),
	"Shows the machine and its tenants, again each second: bars of the events that\n"
	"they hold of their maximum (||||, reserved and unused ::::), and the changes since\n"
	"the last look. The first letters of events, connections, refusals, lost,\n"
	"throttled and name sort by these, as left and right do; up, down and the page\n"
	"keys scroll; ? explains the columns; q or Ctrl-C quits.");
