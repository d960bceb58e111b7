/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/silence/silence.h"

/* So many names and patterns go into one request: the longest fit into a packet. */
enum { EVENTS_AT_ONCE = 100, PATTERNS_AT_ONCE = 8 };

void silence_answer_deinit(struct silence_answer *answer)
{
	for (size_t i = 0; i < answer->n; i++)
		free((void *)answer->rows[i].at);
	free(answer->rows);
	*answer = (struct silence_answer){ 0 };
}

/* The first row is about the whole request: how many tenants see its events as off is known with the last of the patterns. */
static int answer_read(struct control *control, struct silence_answer *answer, size_t first, size_t n, bool is_last)
{
	struct cursor row = { 0 };
	int r = control_next_row(control, &row);

	if (r > 0) {
		answer->on += is_last ? row_get_u64(row, "on") : 0;
		answer->off += is_last ? row_get_u64(row, "off") : 0;
		answer->kept = row_get_u64(row, "kept");
		row_get_string(row, "kept_error", answer->kept_error, sizeof(answer->kept_error));
	}
	for (size_t i = first; i < first + n && r > 0; i++) {
		r = control_next_row(control, &row);
		if (r <= 0)
			break;
		/* That of the same pattern, with other events. */
		free((void *)answer->rows[i].at);
		answer->rows[i] = row_copy(row);
		answer->n = MAX(answer->n, i + 1);
	}
	return r < 0 ? r : r == 0 ? -EBADMSG : 0;
}

int silence_ask_on(struct control *control, uint16_t asked, const char *const *events, size_t n_events,
		   const struct silence_patterns *patterns, struct silence_answer *ret)
{
	size_t event = 0, pattern = 0;
	int r = 0;

	ret->rows = must(calloc(patterns->n + 1, sizeof(*ret->rows)));
	do {
		const size_t events_now = MIN(n_events - event, (size_t)EVENTS_AT_ONCE);
		const size_t patterns_now = MIN(patterns->n - pattern, (size_t)PATTERNS_AT_ONCE);
		const bool is_last = pattern + patterns_now == patterns->n;
		struct packet packet = control_begin(control, KIND_SILENCE);
		const size_t mark = encode_list(&packet, asked);

		for (size_t i = event; i < event + events_now; i++)
			encode_string(&packet, SILENCE_OF_EVENT, events[i], strlen(events[i]));
		for (size_t i = pattern; i < pattern + patterns_now; i++)
			encode_string(&packet, patterns->at[i].flags, patterns->at[i].text,
				      strlen(patterns->at[i].text));
		encode_count(&packet, mark, (uint16_t)(events_now + patterns_now));
		r = control_send(control, &packet);
		if (r == 0)
			r = answer_read(control, ret, pattern, patterns_now, is_last);
		pattern = is_last ? 0 : pattern + patterns_now;
		event += is_last ? events_now : 0;
	} while (r == 0 && (pattern > 0 || event < n_events));
	return r;
}

int silence_ask(const struct ctl *ctl, uint16_t asked, const char *const *events, size_t n_events,
		const struct silence_patterns *patterns, struct silence_answer *ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r = control_open(ctl->control_socket, &control);

	if (r == 0)
		r = silence_ask_on(control, asked, events, n_events, patterns, ret);
	return r < 0 ? control_explain(ctl->control_socket, r) : EXIT_DONE;
}

void silence_note_kept(const struct silence_answer *answer)
{
	if (*answer->kept_error)
		ctl_note(
			"userevctl: the daemon cannot write this into its state directory (%s): it ends when daemon and keeper do.",
			safe_string(answer->kept_error).text);
	else if (!answer->kept)
		ctl_note("userevctl: the daemon has no --state-directory: this ends when daemon and keeper do.");
}
