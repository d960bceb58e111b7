/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The output of doctor: complete enough for a bug report. */

#include <stdarg.h>
#include <sys/utsname.h>

#include "client/userevctl/doctor/doctor.h"

static const struct {
	const char *name;
	enum style style;
} marks[] = {
	[MARK_OK] = { "ok", STYLE_GOOD },
	[MARK_NOTE] = { "note", STYLE_WARNING },
	[MARK_FAIL] = { "fail", STYLE_BAD },
	[MARK_SKIP] = { "skip", STYLE_DIM },
};

void findings_begin(struct doctor *doctor)
{
	FILE *file = doctor->ctl->output.file;
	struct json *json = &doctor->json;
	struct utsname system;
	char kernel[sizeof(system)];

	uname(&system);
	snprintf(kernel, sizeof(kernel), "%s %s %s", system.sysname, system.release, system.machine);
	*json = (struct json){ .file = file };
	if (!doctor->ctl->output.json) {
		fprintf(file, "userevctl %s, libuserev %s, %s, user %u, socket %s\n", VERSION, userev_version(), kernel,
			geteuid(), doctor->path);
		return;
	}
	json_begin(json, '{');
	json_put(json, json_text("userevctl", VERSION), json_text("libuserev", userev_version()),
		 json_text("system", kernel), json_text("socket", doctor->path), json_u64("uid", geteuid()));
	json_put_begin(json, "checks", '[');
}

void finding(struct doctor *doctor, enum mark mark, const char *subject, const char *advice, const char *format, ...)
{
	const struct output *output = &doctor->ctl->output;
	char sentence[8192];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	doctor->failed |= mark == MARK_FAIL;
	advice = advice && *advice ? advice : NULL;
	if (doctor->ctl->output.json) {
		json_object(&doctor->json, json_text("check", subject), json_text("result", marks[mark].name),
			    json_text("sentence", sentence), json_text("advice", advice));
		return;
	}
	putc('[', output->file);
	output_styled(output, marks[mark].style, "%s", marks[mark].name);
	fprintf(output->file, "]%*s", (int)(5 - strlen(marks[mark].name)), "");
	output_styled(output, STYLE_BOLD, "%s", subject);
	fprintf(output->file, ": %s\n", sentence);
	if (advice)
		fprintf(output->file, "       %s\n", advice);
}

void finding_by_error(struct doctor *doctor, const struct obstacle *table, int error, const char *detail)
{
	while (table->error != 0 && table->error != error)
		table++;
	/* Of a root whose data files no guard protects. */
	finding(doctor, MARK_FAIL, table->subject,
		strstr(detail, "AllowHost")
			? "Use another user, run the guard if the kernel supports it (userevd-guard(8)), or ask the admin to allow it."
			: table->advice,
		"%s: %s", table->sentence, detail);
}

void findings_end(struct doctor *doctor)
{
	const struct output *output = &doctor->ctl->output;

	if (doctor->ctl->output.json) {
		json_end(&doctor->json, ']');
		json_put(&doctor->json, json_bool("works", !doctor->failed));
		json_end(&doctor->json, '}');
	} else if (doctor->failed) {
		output_styled(output, STYLE_BAD, "Events do not work from here");
		fputs(": see the failed checks above.\n", output->file);
	} else {
		output_styled(output, STYLE_GOOD, "Events work from here.");
		putc('\n', output->file);
	}
}
