/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The output of doctor: complete enough for a bug report. */

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
	json_put_text(&findings->json, "userevctl", VERSION);
	json_put_text(&findings->json, "libuserev", userev_version());
	json_put_text(&findings->json, "system", kernel);
	json_put_text(&findings->json, "socket", socket);
	json_put_u64(&findings->json, "uid", geteuid());
	json_put_begin(&findings->json, "checks", '[');
}

void finding(struct findings *findings, enum mark mark, const char *subject, const char *advice, const char *format,
	     ...)
{
	const struct output *output = findings->output;
	struct json *json = &findings->json;
	char sentence[8192];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	if (mark == MARK_FAIL)
		findings->failed = true;
	if (!output->json) {
		putc('[', output->file);
		output_styled(output, marks[mark].style, "%s", marks[mark].name);
		fprintf(output->file, "]%*s", (int)(5 - strlen(marks[mark].name)), "");
		output_styled(output, STYLE_BOLD, "%s", subject);
		fprintf(output->file, ": %s\n", sentence);
		if (advice)
			fprintf(output->file, "       %s\n", advice);
		return;
	}
	json_begin(json, '{');
	json_put_text(json, "check", subject);
	json_put_text(json, "result", marks[mark].name);
	json_put_text(json, "sentence", sentence);
	if (advice)
		json_put_text(json, "advice", advice);
	json_end(json, '}');
}

void findings_end(struct findings *findings)
{
	const struct output *output = findings->output;

	if (output->json) {
		json_end(&findings->json, ']');
		json_put_bool(&findings->json, "works", !findings->failed);
		json_end_line(&findings->json, '}');
	} else if (findings->failed) {
		output_styled(output, STYLE_BAD, "Events do not work from here");
		fputs(": see the failed checks above.\n", output->file);
	} else {
		output_styled(output, STYLE_GOOD, "Events work from here.");
		putc('\n', output->file);
	}
}
