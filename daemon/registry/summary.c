/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/summary.h"

#include "daemon/policy/policy.h"
#include "protocol/base/table.h"

static const char *nearest_section(const struct registry *registry, const char *path)
{
	const struct section *section;

	if (streq(path, SUMMARY_OF_POLICY))
		return SUMMARY_OF_POLICY;
	section = policy_nearest(registry->policy, path);
	return section ? section->name : SUMMARY_OF_NO_SECTION;
}

struct summary *summary_of_path(struct registry *registry, const char *path)
{
	const char *section = nearest_section(registry, path);
	const size_t length = strlen(section);
	struct summary *summary;

	HASH_FIND(by_section, registry->summaries, section, length, summary);
	if (summary)
		return summary;
	summary = calloc(1, sizeof(*summary) + length + 1);
	if (!summary)
		return NULL;
	memcpy(summary->section, section, length);
	HASH_ADD(by_section, registry->summaries, section, length, summary);
	if (table_added())
		return summary;
	free(summary);
	return NULL;
}

static void forget_names(struct summary *summary)
{
	struct summary_name *name;

	while ((name = summary->names)) {
		HASH_DELETE(by_text, summary->names, name);
		free(name);
	}
}

void summaries_deinit(struct registry *registry)
{
	struct summary *summary;

	while ((summary = registry->summaries)) {
		forget_names(summary);
		HASH_DELETE(by_section, registry->summaries, summary);
		free(summary);
	}
}

const struct summary_name *summary_name(struct summary *summary, const char *text, size_t length)
{
	struct summary_name *name;

	HASH_FIND(by_text, summary->names, text, length, name);
	if (name || HASH_CNT(by_text, summary->names) == SUMMARY_NAMES_MAX)
		return name;
	name = calloc(1, sizeof(*name) + length + 1);
	if (!name)
		return NULL;
	memcpy(name->text, text, length);
	HASH_ADD(by_text, summary->names, text, length, name);
	if (table_added())
		return name;
	free(name);
	return NULL;
}
