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
#include "protocol/protocol.h"

/* 32 digits or more: a shorter number may be a word. docker ps and podman ps show twelve, kubectl those of a UUID up to 13. */
#define HEX  "[0-9a-fA-F]"
#define ID   "(" HEX "{12})" HEX "{20,}"
#define UUID "(" HEX "{8}[-_]" HEX "{4})([-_]" HEX "{4}){2}[-_]" HEX "{12}"

enum { CONTAINER_FORMS = 11, FORMS = 14, GROUPS = 5 };

/* Of the ends of paths. In `name` the bytes below GROUPS are the numbers of parentheses. */
static const struct form {
	const char *regex, *name;
} forms[FORMS] = {
	{ "/docker/" ID "(\\.scope)?$", "docker-\1" },
	{ "/([^/]*:)?cri-containerd[-:]" ID "(\\.scope)?$", "containerd-\2" },
	{ "/([^/]*:)?libpod-" ID "(\\.scope)?$", "podman-\2" },
	{ "/([^/]*:)?([^:/]+)[-:]" ID "(\\.scope)?$", "\2-\3" },
	{ "/" ID "(\\.scope)?$", "container-\1" },
	{ "/([^/]*-)?pod" UUID "(\\.slice)?$", "pod-\2" },
	{ "/([^/]*-)?pod" ID "(\\.slice)?$", "pod-\2" },
	{ "/machine-([^/]+)\\.scope$", "machine-\1" },
	{ "/systemd-nspawn@([^/]+)\\.service$", "machine-\1" },
	{ "/lxc\\.payload\\.([^/]+)$", "lxc-\1" },
	{ "/lxc(\\.payload)?/([^/]+)$", "lxc-\2" },
	/* Units: */
	{ "/user-([^/]+)\\.slice$", "user-\1" },
	{ "/user@([^/]+)\\.service$", "user-\1" },
	{ "/([^/]+\\.(service|scope))$", "\1" },
};

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

static bool name_by_form(size_t number, const char *path, struct tenant_name *ret)
{
	static regex_t compiled[FORMS];
	static bool ready[FORMS];
	struct text text;
	regmatch_t match[GROUPS];

	if (!ready[number] && regcomp(&compiled[number], forms[number].regex, REG_EXTENDED) != 0)
		return false;
	ready[number] = true;
	if (regexec(&compiled[number], path, GROUPS, match, 0) != 0)
		return false;
	text = text_make(ret->text, sizeof(ret->text));
	for (const char *c = forms[number].name; *c; c++)
		if (*c < GROUPS)
			put_unescaped(&text, path + match[(size_t)*c].rm_so,
				      (size_t)(match[(size_t)*c].rm_eo - match[(size_t)*c].rm_so));
		else
			text_put(&text, c, 1);
	/* The name of a slice has underscores in a UUID, because a dash stands for a level. */
	for (char *c = ret->text; strncmp(ret->text, "pod-", 4) == 0 && *c; c++)
		*c = *c == '_' ? '-' : *c;
	return true;
}

struct tenant_name tenant_name(const char *path)
{
	struct tenant_name ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));
	char at[WIRE_TENANT_MAX + 1], pid[16], *slash;
	bool is_unit = false;
	int comm = 0;

	string_copy(at, sizeof(at), path);
	while ((slash = strrchr(at, '/')) && slash > at && !slash[1])
		*slash = '\0';
	/* With --tenants=process. The name is that of a holder of events. */
	if (sscanf(at, "process:%15[0-9]:%n", pid, &comm) == 1 && comm > 0) {
		text_printf(&text, "%s-%s", at + comm, pid);
		return ret;
	}
	slash = slash && slash[1] ? slash + 1 : at;
	put_unescaped(&text, slash, strlen(slash));
	for (; (slash = strrchr(at, '/')); *slash = '\0')
		for (size_t i = 0; i < (is_unit ? CONTAINER_FORMS : FORMS); i++)
			if (name_by_form(i, at, &ret)) {
				if (i < CONTAINER_FORMS)
					return ret;
				is_unit = true;
			}
	return ret;
}
