/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * enable --keep: names of events are lines of a file, which userevd-sessions.service reads at the boot with enable --kept. Behind a name
 * there may be a blank and a pattern of tenants, for which alone the event is to be on.
 */

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "client/userevctl/silence/silence.h"
#include "client/userevctl/tracing/kept.h"
#include "protocol/base/array.h"

#define KEPT_FOLDER "/etc/userevd"
#define KEPT_FILE   KEPT_FOLDER "/kept-events"

void kept_deinit(struct kept *kept)
{
	for (int i = 0; i < kept->n; i++) {
		free(kept->names[i]);
		free(kept->tenants[i]);
	}
	free(kept->names);
	free(kept->tenants);
}

static void add_kept(struct kept *kept, const char *name, const char *tenant)
{
	kept->names = must(array_grow(kept->names, (size_t)kept->n, sizeof(*kept->names)));
	kept->tenants = must(array_grow(kept->tenants, (size_t)kept->n, sizeof(*kept->tenants)));
	kept->tenants[kept->n] = tenant ? must(strdup(tenant)) : NULL;
	kept->names[kept->n++] = must(strdup(name));
}

static int explain_kept(const char *action)
{
	int error = errno;

	ctl_error("cannot %s " KEPT_FILE ": %s.", action, strerror(error));
	return error == EACCES || error == EPERM ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
}

static int load_kept(struct kept *ret)
{
	FILE *file = fopen(KEPT_FILE, "re");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return errno == ENOENT ? EXIT_DONE : explain_kept("read");
	while (getline(&line, &size, file) > 0) {
		char *tenant = line;
		const char *name = strsep(&tenant, " ");

		line[strcspn(line, "\n")] = '\0';
		if (tenant)
			tenant[strcspn(tenant, "\n")] = '\0';
		if (*name)
			add_kept(ret, name, tenant);
	}
	free(line);
	fclose(file);
	return EXIT_DONE;
}

int kept_look(struct kept *ret, struct tracing *tracing)
{
	int r = load_kept(ret);

	if (r == EXIT_DONE)
		r = tracing_look(tracing);
	tracing->patterns = ret->names;
	tracing->n_patterns = ret->n;
	tracing->foreign = FOREIGN_BY_NAME;
	for (int i = 0; r == EXIT_DONE && i < ret->n; i++) {
		const struct event *event = tracing->events.events, *end = event + tracing->events.n;

		while (event < end && !tracing_matches(tracing, ret->names[i], event))
			event++;
		if (event == end)
			ctl_note("userevctl: '%s' is not there to be switched on. [Event NAME] of the policy makes an "
				 "event before its programs start.",
				 safe_string(ret->names[i]).text);
	}
	return r;
}

/* A power failure leaves the old file or the new one. */
static int write_kept(const struct kept *kept)
{
	FILE *file = fopen(KEPT_FILE "~", "we");
	bool good = file;

	for (int i = 0; good && i < kept->n; i++)
		fprintf(file, "%s%s%s\n", kept->names[i], kept->tenants[i] ? " " : "",
			kept->tenants[i] ? kept->tenants[i] : "");
	good = good && fflush(file) == 0 && fsync(fileno(file)) == 0;
	if (file)
		good = fclose(file) == 0 && good;
	return good && rename(KEPT_FILE "~", KEPT_FILE) == 0 ? EXIT_DONE : explain_kept("write");
}

/* The line is replaced; more tenants are added to those that a name has. */
static bool is_replaced(const struct ctl *ctl, const struct kept *before, int i, bool keep,
			const struct silence_answer *only)
{
	for (int j = 0; j < ctl->argc; j++)
		if (keep ? streq(ctl->argv[j], before->names[i]) && (!before->tenants[i] || only->n == 0)
			 : name_matches(ctl->argv[j], before->names[i]))
			return true;
	return false;
}

static bool is_kept(const struct kept *kept, const char *name, const char *tenant)
{
	for (int i = 0; i < kept->n; i++)
		if (streq(kept->names[i], name) && kept->tenants[i] && tenant && streq(kept->tenants[i], tenant))
			return true;
	return false;
}

int kept_change(const struct ctl *ctl, bool keep, const struct silence_answer *only)
{
	_cleanup_(kept_deinit) struct kept before = { 0 }, after = { 0 };
	_cleanup_(fd_closep) int lock = -1;
	char tenant[WIRE_TENANT_MAX + 1];
	int r;

	if (keep)
		mkdir(KEPT_FOLDER, 0755);
	/* Two commands at the same time lose no line of each other's. */
	lock = open(KEPT_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock >= 0)
		flock(lock, LOCK_EX);
	r = load_kept(&before);
	for (int i = 0; i < before.n; i++)
		if (!is_replaced(ctl, &before, i, keep, only))
			add_kept(&after, before.names[i], before.tenants[i]);
	for (int i = 0; keep && i < ctl->argc; i++) {
		if (only->n == 0)
			add_kept(&after, ctl->argv[i], NULL);
		for (size_t j = 0; j < only->n; j++) {
			row_get_string(only->rows[j], "tenant", tenant, sizeof(tenant));
			if (!is_kept(&after, ctl->argv[i], tenant))
				add_kept(&after, ctl->argv[i], tenant);
		}
	}
	return r == EXIT_DONE && (keep || after.n < before.n) ? write_kept(&after) : r;
}
