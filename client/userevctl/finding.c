/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What doctor found, line by line: fit to be pasted into a bug report. */

#include <stdarg.h>
#include <sys/utsname.h>

#include "client/userevctl/doctor/doctor.h"
#include "protocol/base/text.h"

static const struct {
	const char *name;
	enum style style;
} marks[] = {
	[MARK_OK] = { "ok", STYLE_GOOD },
	[MARK_NOTE] = { "note", STYLE_WARNING },
	[MARK_FAIL] = { "fail", STYLE_BAD },
	[MARK_SKIP] = { "skip", STYLE_DIM },
};

static void put_json(struct json *json, const char *key, const char *value)
{
	json_key(json, key, strlen(key));
	json_string(json, value, strlen(value));
}

void findings_begin(struct findings *findings, const struct output *output, const char *socket)
{
	struct utsname system;
	char kernel[sizeof(system)];

	uname(&system);
	snprintf(kernel, sizeof(kernel), "%s %s %s", system.sysname, system.release, system.machine);
	*findings = (struct findings){ .output = output, .json = { .file = output->file } };
	if (!output->json) {
		fprintf(output->file, "userevctl %s, libuserev %s, %s, user %u, socket %s\n", VERSION, userev_version(),
			kernel, geteuid(), socket);
		return;
	}
	json_begin(&findings->json, '{');
	put_json(&findings->json, "userevctl", VERSION);
	put_json(&findings->json, "libuserev", userev_version());
	put_json(&findings->json, "system", kernel);
	put_json(&findings->json, "socket", socket);
	json_key(&findings->json, "uid", 3);
	json_u64(&findings->json, geteuid());
	json_key(&findings->json, "checks", 6);
	json_begin(&findings->json, '[');
}

static void print_finding(const struct output *output, enum mark mark, const char *subject, const char *sentence,
			  const char *advice)
{
	putc('[', output->file);
	output_styled(output, marks[mark].style, "%s", marks[mark].name);
	fprintf(output->file, "]%*s", (int)(5 - strlen(marks[mark].name)), "");
	output_styled(output, STYLE_BOLD, "%s", subject);
	fprintf(output->file, ": %s\n", sentence);
	if (advice)
		fprintf(output->file, "       %s\n", advice);
}

void finding(struct findings *findings, enum mark mark, const char *subject, const char *advice, const char *format,
	     ...)
{
	struct json *json = &findings->json;
	char sentence[8192];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	if (mark == MARK_FAIL)
		findings->failed = true;
	if (!findings->output->json) {
		print_finding(findings->output, mark, subject, sentence, advice);
		return;
	}
	json_begin(json, '{');
	put_json(json, "check", subject);
	put_json(json, "result", marks[mark].name);
	put_json(json, "sentence", sentence);
	if (advice)
		put_json(json, "advice", advice);
	json_end(json, '}');
}

void findings_end(struct findings *findings)
{
	const struct output *output = findings->output;

	if (output->json) {
		json_end(&findings->json, ']');
		json_key(&findings->json, "works", 5);
		json_bool(&findings->json, !findings->failed);
		json_end(&findings->json, '}');
		putc('\n', output->file);
	} else if (findings->failed) {
		output_styled(output, STYLE_BAD, "Events do not work from here");
		fputs(": see what failed above.\n", output->file);
	} else {
		output_styled(output, STYLE_GOOD, "Events work from here.");
		putc('\n', output->file);
	}
}
