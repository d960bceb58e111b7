/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Names of sessions, of their instances, and of their groups of probes. Pure. */

#include "client/userevctl/session/session.h"

static const char group_prefix[] = "userevd_";

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

bool session_name_is_good(const char *name)
{
	const size_t length = strspn(name, LETTERS "-.");

	/* It begins with none of the other two: so "." and ".." are no names, and neither is an option. */
	return length > 0 && length <= SESSION_NAME_MAX && !name[length] && strchr("-.", name[0]) == NULL;
}

const char *session_of_instance(const char *instance)
{
	const char *name = instance + strlen(SESSION_PREFIX);

	return strncmp(instance, SESSION_PREFIX, strlen(SESSION_PREFIX)) == 0 && session_name_is_good(name) ? name
													    : NULL;
}

static const char escapes[] = "_dp", characters[] = "_-.";

/* Groups have letters, digits and underscores: "__" stands for an underscore, "_d" for "-", "_p" for ".". */
bool session_group(const char *name, char ret[static SESSION_GROUP_MAX])
{
	struct text text = text_make(ret, SESSION_GROUP_MAX);

	text_put(&text, group_prefix, strlen(group_prefix));
	for (; *name; name++) {
		const char *character = strchr(characters, *name);

		if (character)
			text_put(&text, "_", 1);
		text_put(&text, character ? &escapes[character - characters] : name, 1);
	}
	return !text.cut;
}

bool session_of_group(const char *group, char ret[static SESSION_GROUP_MAX])
{
	char *to = ret;

	if (strncmp(group, group_prefix, strlen(group_prefix)) != 0 || strlen(group) >= SESSION_GROUP_MAX)
		return false;
	for (const char *at = group + strlen(group_prefix); *at; at++) {
		const char *escape = *at == '_' && at[1] ? strchr(escapes, at[1]) : NULL;

		if (*at == '_' && !escape)
			return false;
		*to++ = escape ? characters[escape - escapes] : *at;
		at += escape != NULL;
	}
	*to = '\0';
	return session_name_is_good(ret);
}
