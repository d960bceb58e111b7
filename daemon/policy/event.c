/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * May this tenant have an event of this name? The lists of DenyEvents= are asked first, from the root's on, and what one of them
 * denies nothing can allow.
 */

#include "daemon/policy/glob.h"
#include "daemon/policy/policy.h"
#include "protocol/protocol.h"
#include "protocol/refusal.h"

void policy_origin_text(const struct policy_origin *origin, struct text *text)
{
	if (!origin->file) {
		text_printf(text, "default");
		return;
	}
	text_safe(text, origin->file, strlen(origin->file));
	text_printf(text, ":%u", origin->line);
}

void policy_limit_text(enum policy_key key, const struct policy_value *value, struct text *text)
{
	text_printf(text, "%s=", policy_key_name(key));
	policy_value_text(key, value, text);
	if (!value->origin.file)
		return;
	text_printf(text, " of [");
	text_excerpt(text, value->origin.section, strlen(value->origin.section));
	text_printf(text, "]");
}

static const struct policy_glob *find_glob(const struct policy_value *list, const char *name, size_t length)
{
	for (size_t i = 0; i < list->n_globs; i++)
		if (glob_matches(list->globs[i].text, strlen(list->globs[i].text), name, length))
			return &list->globs[i];
	return NULL;
}

static void put_origin(struct text *why, const struct policy_origin *origin)
{
	text_printf(why, " (");
	policy_origin_text(origin, why);
	text_printf(why, ")");
}

static void put_name(struct text *why, const char *name, size_t length)
{
	text_printf(why, " '");
	text_excerpt(why, name, length);
	text_printf(why, "'");
}

static void say_denied(struct text *why, const struct policy_glob *glob, const char *name, size_t length)
{
	text_printf(why, "DenyEvents=");
	text_excerpt(why, glob->text, strlen(glob->text));
	text_printf(why, " denies");
	put_name(why, name, length);
	put_origin(why, &glob->origin);
}

static bool is_denied(const struct policy_rules *rules, const char *name, size_t length, struct policy_verdict *ret,
		      struct text *why)
{
	for (size_t i = 0; i < rules->n_denials; i++) {
		const struct policy_value *list = rules->denials[i];
		const struct policy_glob *glob = find_glob(list, name, length);

		if (!glob)
			continue;
		*ret = (struct policy_verdict){ POLICY_DENY_EVENTS, list, glob };
		say_denied(why, glob, name, length);
		return true;
	}
	return false;
}

static void say_not_allowed(struct text *why, const struct policy_value *list, const char *name, size_t length)
{
	text_printf(why, "nothing in AllowEvents= matches");
	put_name(why, name, length);
	put_origin(why, &list->origin);
}

static void say_flag(struct text *why, enum policy_key key, const struct policy_value *value)
{
	text_printf(why, "%s=no; register it without that flag", policy_key_name(key));
	put_origin(why, &value->origin);
}

/* The flag that the tenant may not have, if there is one. */
static enum policy_key find_flag(const struct policy_rules *rules, unsigned flags)
{
	static const struct {
		unsigned flag;
		enum policy_key key;
	} allowing[] = {
		{ REGISTER_PERSIST, POLICY_ALLOW_PERSIST },
		{ REGISTER_MULTI_FORMAT, POLICY_ALLOW_MULTI_FORMAT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(allowing); i++)
		if ((flags & allowing[i].flag) && !rules->value[allowing[i].key]->number)
			return allowing[i].key;
	return POLICY_KEYS;
}

struct membership {
	const struct pattern *pattern;
	bool found;
};

static bool is_member(void *data, const char *path)
{
	struct membership *membership = data;

	membership->found = pattern_matches(membership->pattern, path, path_depth(path));
	return membership->found;
}

bool policy_owner_has(const struct policy_owner *owner, const char *path)
{
	struct membership membership = { owner->pattern, false };

	if (path[0] == '/')
		policy_walk(path, is_member, &membership);
	return membership.found;
}

/* NULL: nobody owns the name. */
static const struct policy_glob *find_owner(const struct policy *policy, const char *name, size_t length,
					    struct policy_owner *ret)
{
	for (size_t at = 0; policy_next_owner(policy, &at, ret);) {
		const struct policy_glob *glob = find_glob(ret->names, name, length);

		if (glob)
			return glob;
	}
	return NULL;
}

/* The sentence does not say whose it is: other tenants' cgroups are nobody's business. */
static bool is_owned_by_others(const struct policy_rules *rules, const char *name, size_t length,
			       struct policy_verdict *ret, struct text *why)
{
	struct policy_owner owner;
	const struct policy_glob *glob = find_owner(rules->policy, name, length, &owner);

	if (!glob)
		return false;
	*ret = (struct policy_verdict){ POLICY_OWN_NAMES, owner.names, glob };
	if (policy_owner_has(&owner, rules->path))
		return false;
	text_printf(why, "the policy keeps the name");
	put_name(why, name, length);
	text_printf(why, " for others");
	put_origin(why, &glob->origin);
	return true;
}

static void say_not_yours(struct text *why, const struct policy_event *event)
{
	text_printf(why, "the policy keeps the event '");
	text_excerpt(why, event->name, strlen(event->name));
	text_printf(why, "' for others");
	put_origin(why, &event->tenants->origin);
}

static const struct policy_glob *find_pattern(const struct policy_value *patterns, const char *path)
{
	size_t depth = path_depth(path);

	for (size_t i = 0; path[0] == '/' && i < patterns->n_globs; i++)
		if (pattern_matches(&patterns->globs[i].pattern, path, depth))
			return &patterns->globs[i];
	return NULL;
}

/* Whether it is declared for others than this tenant. */
static bool is_kept_for_others(const struct policy_rules *rules, const char *name, size_t length,
			       struct policy_verdict *ret, struct text *why)
{
	struct policy_event event;

	if (!policy_find_event(rules->policy, name, length, &event) || event.tenants->is_default ||
	    find_pattern(event.tenants, rules->path))
		return false;
	*ret = (struct policy_verdict){ POLICY_TENANTS, event.tenants, NULL };
	say_not_yours(why, &event);
	return true;
}

int policy_may_register(const struct policy_rules *rules, const char *name, size_t length, unsigned flags,
			struct policy_verdict *ret, struct text *why)
{
	const struct policy_value *allow = rules->value[POLICY_ALLOW_EVENTS];
	enum policy_key flag = find_flag(rules, flags);

	*ret = (struct policy_verdict){ 0 };
	if (is_denied(rules, name, length, ret, why))
		return REFUSAL_NOT_PERMITTED;
	if (is_owned_by_others(rules, name, length, ret, why))
		return REFUSAL_NOT_PERMITTED;
	/* That the name is owned says more than that all names are allowed. */
	if (!ret->glob || !allow->is_default)
		*ret = (struct policy_verdict){ POLICY_ALLOW_EVENTS, allow, find_glob(allow, name, length) };
	if (!ret->glob && !allow->is_default) {
		say_not_allowed(why, allow, name, length);
		return REFUSAL_NOT_PERMITTED;
	}
	if (is_kept_for_others(rules, name, length, ret, why))
		return REFUSAL_NOT_PERMITTED;
	if (flag == POLICY_KEYS)
		return 0;
	*ret = (struct policy_verdict){ flag, rules->value[flag], NULL };
	say_flag(why, flag, ret->value);
	return REFUSAL_NOT_PERMITTED;
}
