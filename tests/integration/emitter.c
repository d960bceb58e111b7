/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A program without privilege that reads commands of a script, and executes them with the library: a command a line, its words separated
 * by tabs, and a line in answer to each.
 *
 *	register DESCRIPTION
 *	await NAME on|off		until the event is on or off, or SECONDS have passed
 *	write NAME COUNT [FIELD=VALUE…]	so many records; the answer is the size of the payload, or 0 if the event is off
 *	release NAME
 *
 * The answer is "ok", a sentence with the error, or, to write, the number of bytes.
 */

#include <stdio.h>
#include <time.h>

#include "client/userev.h"
#include "protocol/event/record.h"

enum { EVENTS_MAX = 16, WORDS_MAX = 32, SECONDS = 20, POLL_NS = 1000000 };

struct emitted {
	struct userev_event event;
	struct description description; /* without fields: free */
};

struct emitter {
	struct userev *userev;
	struct emitted events[EVENTS_MAX];
};

static struct emitted *find(struct emitter *emitter, const char *name)
{
	for (size_t i = 0; i < EVENTS_MAX; i++) {
		struct emitted *emitted = &emitter->events[i];

		if (strlen(name) == emitted->description.name_length &&
		    memcmp(name, emitted->description.canonical, strlen(name)) == 0)
			return emitted;
	}
	return NULL;
}

static void register_event(struct emitter *emitter, const char *text, struct text *answer)
{
	struct emitted *emitted = find(emitter, "");

	if (!emitted) {
		text_printf(answer, "no room for another event");
		return;
	}
	if (description_parse(text, strlen(text), &emitted->description, answer) == 0) {
		if (userev_register(emitter->userev, &emitted->event, text, 0) == 0)
			return;
		text_printf(answer, "%s", userev_refusal());
	}
	emitted->description.name_length = 0;
}

static void await(const struct emitted *emitted, bool on, struct text *answer)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	const time_t deadline = time(NULL) + SECONDS;

	while (userev_enabled(&emitted->event) != on && time(NULL) <= deadline)
		nanosleep(&pause, NULL);
	if (userev_enabled(&emitted->event) != on)
		text_printf(answer, "%s is still %s", emitted->description.canonical, on ? "off" : "on");
}

static void write_records(const struct emitted *emitted, unsigned long count, const char *const *assignments, size_t n,
			  struct text *answer)
{
	uint8_t payload[UINT16_MAX];
	ssize_t written = 0;
	size_t size;

	if (record_build(&emitted->description, assignments, n, payload, sizeof(payload), &size, answer) != 0)
		return;
	for (unsigned long i = 0; i < count && written >= 0; i++)
		written = userev_write(&emitted->event, payload, size);
	if (written < 0)
		text_printf(answer, "%s", strerror((int)-written));
	else
		text_printf(answer, "%zd", written);
}

static void obey(struct emitter *emitter, char **word, size_t n, struct text *answer)
{
	struct emitted *emitted = n >= 2 ? find(emitter, word[1]) : NULL;

	if (n == 2 && streq(word[0], "register")) {
		register_event(emitter, word[1], answer);
	} else if (!emitted || *word[1] == '\0') {
		text_printf(answer, "no such command, or event");
	} else if (n == 3 && streq(word[0], "await")) {
		await(emitted, streq(word[2], "on"), answer);
	} else if (n >= 3 && streq(word[0], "write")) {
		write_records(emitted, strtoul(word[2], NULL, 10), (const char *const *)&word[3], n - 3, answer);
	} else if (n == 2 && streq(word[0], "release")) {
		userev_release(emitter->userev, &emitted->event);
		emitted->description.name_length = 0;
	} else {
		text_printf(answer, "no such command");
	}
}

int main(void)
{
	static struct emitter emitter;
	char *line = NULL;
	size_t size = 0;

	emitter.userev = userev_open(NULL, 0);
	if (!emitter.userev || userev_connected(emitter.userev) != 0)
		return EXIT_FAILURE;
	while (getline(&line, &size, stdin) > 0) {
		char sentence[WIRE_SENTENCE_MAX + 1];
		struct text answer = text_make(sentence, sizeof(sentence));
		char *word[WORDS_MAX], *rest = line;
		size_t n = 0;

		line[strcspn(line, "\n")] = '\0';
		while (rest && n < WORDS_MAX)
			word[n++] = strsep(&rest, "\t");
		obey(&emitter, word, n, &answer);
		puts(answer.length ? sentence : "ok");
		fflush(stdout);
	}
	free(line);
	userev_close(emitter.userev);
	return EXIT_SUCCESS;
}
