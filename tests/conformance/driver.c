/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The driver of libuserev: see README. Payloads are built with userevctl's functions. */

#include <stdio.h>
#include <time.h>

#include "client/userev.h"
#include "protocol/event/record.h"

enum { EVENTS_MAX = 600, CONNECTIONS_MAX = 4, TIMEOUT_S = 60, POLL_NS = 5000000, LINE_MAX_BYTES = 1 << 18 };

struct driven {
	struct userev *userev;
	struct userev_event event;
	struct description description; /* without a name: unused */
};

static struct userev *connections[CONNECTIONS_MAX];
static struct userev *current;
static struct driven driven[EVENTS_MAX];

static struct driven *find(const char *name)
{
	for (size_t i = 0; i < EVENTS_MAX; i++) {
		const struct description *description = &driven[i].description;

		if (strlen(name) == description->name_length &&
		    memcmp(name, description->canonical, description->name_length) == 0 &&
		    (*name == '\0' || driven[i].userev == current))
			return &driven[i];
	}
	return NULL;
}

static const char *yes_or_no(bool yes)
{
	return yes ? "yes" : "no";
}

static void register_event(const char *text)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	struct driven *new = find("");
	int r = new ? userev_register(current, &new->event, text, 0) : -ENOSPC;

	if (r < 0) {
		printf("refused %s\n", userev_refusal()[0] ? userev_refusal() : strerror(-r));
		return;
	}
	new->userev = current;
	if (description_parse(text, strlen(text), &new->description, &why) != 0)
		printf("refused %s\n", sentence);
	else
		puts("ok");
}

static void await(const struct driven *found, bool on)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	const time_t end = time(NULL) + TIMEOUT_S;

	/* No other call: a test of the event finds a daemon that has started or restarted. */
	while (userev_enabled(&found->event) != on && time(NULL) <= end)
		nanosleep(&pause, NULL);
	puts(yes_or_no(userev_enabled(&found->event)));
}

/* Decodes two hexadecimal digits. */
static char byte_of(const char *hex)
{
	const char digits[] = { hex[0], hex[0] ? hex[1] : '\0', '\0' };

	return (char)strtol(digits, NULL, 16);
}

static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		bool escaped = *from == '%';

		*to = escaped ? byte_of(from + 1) : *from;
		from += escaped ? 3 : 1;
	}
	*to = '\0';
}

/* Converts "FIELD=VALUE" to userevctl's notation, in which the field determines the kind of the value. */
static void translate(char *assignment)
{
	char *value = assignment + strcspn(assignment, "=");

	if (*value == '=' && (value[1] == '"' || value[1] == '#')) {
		memmove(value + 1, value + 2, strlen(value + 2) + 1);
		unescape(value + 1);
	}
}

static void write_record(const struct driven *found, char **words, size_t n)
{
	static uint8_t payload[UINT16_MAX];
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	bool on = userev_enabled(&found->event);
	size_t size = 0;
	ssize_t written;
	int r;

	for (size_t i = 0; i < n; i++)
		translate(words[i]);
	r = record_build(&found->description, (const char *const *)words, n, payload, sizeof(payload), &size, &why);
	written = r == 0 ? userev_write(&found->event, payload, size) : r;
	if (r > 0)
		printf("wrong %s\n", sentence);
	else if (written < 0)
		printf("lost %s\n", strerror((int)-written));
	else
		puts(on && (written > 0 || size == 0) ? "written" : "off");
}

static void use_connection(unsigned long number)
{
	struct userev **connection = &connections[number % CONNECTIONS_MAX];

	if (!*connection)
		*connection = userev_open(NULL, 0);
	current = *connection;
	puts("ok");
}

static void release(struct driven *found)
{
	userev_release(found->userev, &found->event);
	*found = (struct driven){ 0 };
	puts("ok");
}

static uint64_t nanoseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void measure(const struct driven *found, unsigned long turns)
{
	static const char path[] = "/favicon.ico";
	struct {
		uint32_t status;
		uint64_t turn;
		uint32_t path;
	} __attribute__((__packed__)) fields = { .status = 404, .path = sizeof(path) << 16 };
	const struct iovec record[] = { { &fields, sizeof(fields) }, { (void *)(uintptr_t)path, sizeof(path) } };
	uint64_t begin = nanoseconds();

	for (unsigned long i = 0; i < turns; i++) {
		fields.turn = i;
		if (userev_enabled(&found->event))
			userev_writev(&found->event, record, 2);
	}
	printf("%llu\n", (unsigned long long)(nanoseconds() - begin));
}

static void obey(char **word, size_t n)
{
	struct driven *found = n >= 2 && *word[1] ? find(word[1]) : NULL;

	if (n == 1 && streq(word[0], "can"))
		puts("hold answer connections");
	else if (n == 2 && streq(word[0], "use"))
		use_connection(strtoul(word[1], NULL, 10));
	else if (n == 2 && streq(word[0], "register"))
		register_event(word[1]);
	else if (!found)
		puts("error: no such command, or event");
	else if (n == 3 && streq(word[0], "await"))
		await(found, streq(word[2], "yes"));
	else if (streq(word[0], "write"))
		write_record(found, word + 2, n - 2);
	else if (n == 2 && streq(word[0], "release"))
		release(found);
	else if (n == 3 && streq(word[0], "measure"))
		measure(found, strtoul(word[2], NULL, 10));
	else
		puts("error: no such command");
}

int main(void)
{
	static char line[LINE_MAX_BYTES];

	current = connections[0] = userev_open(NULL, 0);
	while (fgets(line, sizeof(line), stdin)) {
		char *word[DESCRIPTION_FIELDS_MAX + 2], *rest = line;
		size_t n = 0;

		line[strcspn(line, "\n")] = '\0';
		while (rest && n < ARRAY_SIZE(word))
			word[n++] = strsep(&rest, "\t");
		obey(word, n);
		fflush(stdout);
	}
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		userev_close(connections[i]);
	return EXIT_SUCCESS;
}
