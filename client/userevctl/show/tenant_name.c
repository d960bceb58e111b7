/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Each container engine names its cgroups in its own way:
 *
 *	docker			/docker/ID			/system.slice/docker-ID.scope
 *	containerd		/kubepods/burstable/podUID/ID	/kubepods.slice/…-podUID.slice/cri-containerd-ID.scope
 *				/system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:ID
 *	CRI-O			/kubepods/podUID/crio-ID	…/crio-ID.scope
 *	podman			/libpod_parent/libpod-ID	/machine.slice/libpod-ID.scope/container
 *	machinectl, libvirt	/machine.slice/machine-NAME.scope	…/systemd-nspawn@NAME.service
 *	LXC			/lxc.payload.NAME	/lxc.payload/NAME	/lxc/NAME
 *
 * The innermost component that names a container or a pod counts, otherwise the innermost that names a unit, otherwise the last
 * one. A container that makes cgroups inside its own can so choose its name, but not its path, which stands beside it.
 */

#include "client/userevctl/show/tenant_name.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>

#include "protocol/base/text.h"

/* 32 digits or more: a shorter number may be a word. docker ps and podman ps show twelve, kubectl those of a UUID up to 13. */
#define HEX  "[0-9a-fA-F]"
#define ID   "(" HEX "{12})" HEX "{20,}"
#define UUID "(" HEX "{8}[-_]" HEX "{4})([-_]" HEX "{4}){2}[-_]" HEX "{12}"

/* Forms of "PARENT/COMPONENT". The name is the prefix and the part in the last parentheses that `part` counts. */
static const struct form {
	const char *regex;
	const char *prefix;
	int part;
	bool has_engine; /* the part before names the engine */
} forms[] = {
	{ "^docker/" ID "(\\.scope)?$", "docker-", 1, false },
	{ "/(.*:)?cri-containerd[-:]" ID "(\\.scope)?$", "containerd-", 2, false },
	{ "/(.*:)?libpod-" ID "(\\.scope)?$", "podman-", 2, false },
	{ "/(.*:)?([^:/]+)[-:]" ID "(\\.scope)?$", "", 3, true },
	{ "/" ID "(\\.scope)?$", "container-", 1, false },
	{ "/(.*-)?pod" UUID "(\\.slice)?$", "pod-", 2, false },
	{ "/(.*-)?pod" ID "(\\.slice)?$", "pod-", 2, false },
	{ "/machine-(.+)\\.scope$", "machine-", 1, false },
	{ "/systemd-nspawn@(.+)\\.service$", "machine-", 1, false },
	{ "/lxc\\.payload\\.(.+)$", "lxc-", 1, false },
	{ "^lxc(\\.payload)?/(.+)$", "lxc-", 2, false },
	/* Units: */
	{ "/user-(.+)\\.slice$", "user-", 1, false },
	{ "/user@(.+)\\.service$", "user-", 1, false },
	{ "/(.+\\.(service|scope))$", "", 1, false },
};
enum { FIRST_UNIT = ARRAY_SIZE(forms) - 3, GROUPS = 5, COMPONENT_MAX = 255 };

/* With the characters that systemd writes as \xHH, because the name of a unit may not have them. */
static void put_unescaped(struct text *text, const char *from, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned code;
		char c = from[i];

		if (c == '\\' && length - i >= 4 && from[i + 1] == 'x' && isxdigit((unsigned char)from[i + 2]) &&
		    isxdigit((unsigned char)from[i + 3]) && sscanf(from + i + 2, "%2x", &code) == 1 && code > 0) {
			c = (char)code;
			i += 3;
		}
		text_put(text, &c, 1);
	}
}

static bool name_by_form(size_t number, const char *at, struct tenant_name *ret)
{
	static regex_t compiled[ARRAY_SIZE(forms)];
	static bool ready[ARRAY_SIZE(forms)];
	const struct form *form = &forms[number];
	struct text text = text_make(ret->text, sizeof(ret->text));
	regmatch_t match[GROUPS];
	const regmatch_t *part = &match[form->part];

	if (!ready[number] && regcomp(&compiled[number], form->regex, REG_EXTENDED) != 0)
		return false;
	ready[number] = true;
	if (regexec(&compiled[number], at, GROUPS, match, 0) != 0)
		return false;
	text_printf(&text, "%s", form->prefix);
	if (form->has_engine) {
		put_unescaped(&text, at + part[-1].rm_so, (size_t)(part[-1].rm_eo - part[-1].rm_so));
		text_put(&text, "-", 1);
	}
	put_unescaped(&text, at + part->rm_so, (size_t)(part->rm_eo - part->rm_so));
	/* The name of a slice has underscores in a UUID, because a dash stands for a level. */
	for (char *c = ret->text; streq(form->prefix, "pod-") && *c; c++)
		*c = *c == '_' ? '-' : *c;
	return true;
}

/* The last component of the path, without the slashes behind it. */
static const char *last_component(const char *path, size_t length, size_t *ret_length)
{
	size_t end = length, begin;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && path[begin - 1] != '/';)
		begin--;
	*ret_length = end - begin;
	return path + begin;
}

struct tenant_name tenant_name(const char *path, size_t length)
{
	struct tenant_name ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));
	char at[2 * COMPONENT_MAX + 2];
	size_t last_length, parent_length;
	const char *last = last_component(path, length, &last_length), *colon;

	/* With --tenants=process: "process:PID:COMM". The name is that of a holder of events. */
	colon = length > 8 && memcmp(path, "process:", 8) == 0 ? memchr(path + 8, ':', length - 8) : NULL;
	if (colon) {
		text_put(&text, colon + 1, length - (size_t)(colon + 1 - path));
		text_put(&text, "-", 1);
		text_put(&text, path + 8, (size_t)(colon - path) - 8);
		return ret;
	}
	for (size_t first = 0; first < ARRAY_SIZE(forms); first = first == 0 ? FIRST_UNIT : ARRAY_SIZE(forms)) {
		size_t left = length, end = first == 0 ? FIRST_UNIT : ARRAY_SIZE(forms), n;
		const char *component;

		for (; component = last_component(path, left, &n), n > 0; left = (size_t)(component - path)) {
			const char *parent = last_component(path, (size_t)(component - path), &parent_length);

			snprintf(at, sizeof(at), "%.*s/%.*s", (int)MIN(parent_length, (size_t)COMPONENT_MAX), parent,
				 (int)MIN(n, (size_t)COMPONENT_MAX), component);
			for (size_t i = first; i < end; i++)
				if (name_by_form(i, at, &ret))
					return ret;
		}
	}
	if (last_length > 0)
		put_unescaped(&text, last, last_length);
	else
		put_unescaped(&text, path, length);
	return ret;
}
