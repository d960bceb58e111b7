/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/own_trace.h"
#include "daemon/requests/requests.h"

/* The answer waits until the kernel has been told of all events. */
struct trace_task {
	struct client_task task;
	uint32_t serial;
	int reader;
};

static void trace_on_begun(struct own_trace *trace)
{
	struct trace_task *waiting = trace->data;
	struct client *client = task_end(&waiting->task);

	if (client && client->life == LIFE_OPEN) {
		client_answer(client, KIND_TRACING_OWN, waiting->serial, 0);
		client_send(client, &waiting->reader, 1);
	}
	fd_close(waiting->reader);
	free(waiting);
}

/* 0, or REFUSAL_BAD_DESCRIPTION with a sentence. */
static int read_patterns(struct strings *strings, char ret[OWN_TRACE_PATTERNS_MAX][GLOB_BYTES_MAX + 1], size_t *ret_n,
			 struct text *why)
{
	struct string_item item;
	const char *wrong;

	for (*ret_n = 0; strings_next(strings, &item); ++*ret_n) {
		if (item.flags != 0)
			return REFUSAL_BAD_PACKET;
		if (*ret_n == OWN_TRACE_PATTERNS_MAX || item.length > GLOB_BYTES_MAX) {
			text_printf(why, "a trace has at most %d patterns of %d bytes", OWN_TRACE_PATTERNS_MAX,
				    GLOB_BYTES_MAX);
			return REFUSAL_BAD_DESCRIPTION;
		}
		string_copy(ret[*ret_n], item.length + 1, item.text);
		wrong = glob_check(ret[*ret_n]);
		if (wrong) {
			text_printf(why, "%s", wrong);
			return REFUSAL_BAD_DESCRIPTION;
		}
	}
	return 0;
}

int handle_trace_own(struct client *client, const struct message *message)
{
	char texts[OWN_TRACE_PATTERNS_MAX][GLOB_BYTES_MAX + 1], sentence[WIRE_SENTENCE_MAX + 1];
	const char *patterns[OWN_TRACE_PATTERNS_MAX];
	struct text why = text_make(sentence, sizeof(sentence));
	struct trace_task *waiting;
	struct strings strings;
	size_t n = 0;
	int r;

	if (decode_strings(message->body, &strings) != 0 || strings.flags != 0)
		return REFUSAL_BAD_PACKET;
	waiting = calloc(1, sizeof(*waiting));
	if (!waiting)
		return -ENOMEM;
	waiting->serial = message->serial;
	waiting->reader = -1;
	r = read_patterns(&strings, texts, &n, &why);
	for (size_t i = 0; i < n; i++)
		patterns[i] = texts[i];
	if (r == 0)
		r = own_trace_begin(&client->holder, patterns, n, trace_on_begun, waiting, &waiting->reader, &why);
	if (r == 0) {
		task_begin(&waiting->task, client);
		return 0;
	}
	free(waiting);
	if (r == REFUSAL_BAD_PACKET)
		return r;
	if (r > 0)
		client_disconnect(client, message->serial, (uint32_t)r, "%s", sentence);
	return MIN(r, 0);
}
