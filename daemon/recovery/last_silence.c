/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ledger has the rules, too, but not every daemon finds one: the embedded backend has none, and that of another version is not read.
 * The file has a line for the boot, and one for each rule: "mute PATTERN", "block PATTERN" or "only EVENT PATTERN". No pattern has a line's
 * end. After a boot no event is on, so rules for some tenants alone have no effect, and are left out.
 */

#include "daemon/recovery/last_silence.h"

#include <stdio.h>

#include "daemon/process/log.h"
#include "daemon/recovery/state_file.h"

static const char kept_name[] = "silence", title[] = "boot ";
static const char *const words[SILENCE_KINDS] = {
	[SILENCE_MUTE] = "mute ",
	[SILENCE_BLOCK] = "block ",
	[SILENCE_ONLY] = "only ",
};

/* "": unknown; then no two boots are the same. */
static void boot_id(char ret[64])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(ret, 64, file))
		*ret = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	if (file)
		fclose(file);
}

/* False: it is none. */
static bool line_read(struct registry *registry, char *line, bool same_boot, int *ret_error)
{
	char *event = line + strlen(line), *tenant;

	for (int kind = 1; kind < SILENCE_KINDS; kind++) {
		if (strncmp(line, words[kind], strlen(words[kind])) != 0)
			continue;
		tenant = line + strlen(words[kind]);
		if (kind == SILENCE_ONLY) {
			event = tenant;
			tenant = strchr(event, ' ');
			if (!tenant)
				return false;
			*tenant++ = '\0';
		}
		if (kind != SILENCE_ONLY || same_boot)
			*ret_error = silence_add(registry, (enum silence_kind)kind, event, tenant, NULL);
		return true;
	}
	return false;
}

void last_silence_read(const char *directory, uid_t user, struct registry *registry)
{
	_cleanup_(freep) char *bytes = NULL;
	struct stat status;
	char boot[64], *rest, *line;
	bool same_boot = false, is_good = true;
	size_t size;
	int r = state_file_read(directory, kept_name, user, &bytes, &size, &status);

	if (r < 0) {
		if (r != -ENOENT)
			log_error("%s/%s, with muted and blocked tenants, is not used: %s", directory, kept_name,
				  r == -EPERM ? "another user than root and userevd's could have written it"
					      : strerror(-r));
		return;
	}
	boot_id(boot);
	rest = bytes;
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, title, strlen(title)) == 0)
			same_boot = *boot && streq(line + strlen(title), boot);
		else if (*line)
			is_good &= line_read(registry, line, same_boot, &r) && r == 0;
	}
	if (!is_good)
		log_error("%s/%s, with muted and blocked tenants, is damaged: not all of it is in force", directory,
			  kept_name);
}

int last_silence_keep(const char *directory, const struct registry *registry)
{
	_cleanup_(freep) char *bytes = NULL;
	const struct silence_rule *rule = NULL;
	char boot[64];
	size_t size;
	FILE *text = open_memstream(&bytes, &size);
	bool failed;

	if (!text)
		return -ENOMEM;
	boot_id(boot);
	fprintf(text, "%s%s\n", title, boot);
	while ((rule = silence_after(registry, rule ? rule->number : 0)))
		if (!rule->owner)
			fprintf(text, "%s%s%s%s\n", words[rule->kind], rule->event, *rule->event ? " " : "",
				rule->tenant);
	failed = ferror(text);
	if (fclose(text) != 0 || failed)
		return -ENOMEM;
	/* The loop does not wait for the disk. */
	return state_file_write(directory, kept_name, bytes, size, false);
}
