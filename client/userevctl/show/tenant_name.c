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
 * one. A component may be called anything by the owner of the directory it is in.
 */

#include "client/userevctl/show/tenant_name.h"

#include <fcntl.h>
#include <regex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/escape.h"
#include "daemon/identity/cgroup.h"
#include "protocol/protocol.h"

/* 32 digits or more: a shorter number may be a word. docker ps and podman ps show twelve, kubectl those of a UUID up to 13. */
#define HEX  "[0-9a-fA-F]"
#define ID   "(" HEX "{12})" HEX "{20,}"
#define UUID "(" HEX "{8}[-_]" HEX "{4})([-_]" HEX "{4}){2}[-_]" HEX "{12}"

enum { CONTAINER_FORMS = 11, FORMS = 14, GROUPS = 5 };

/* Of the ends of paths. In `name` and `engine` the bytes below GROUPS are the numbers of parentheses. */
static const struct form {
	const char *regex, *name, *engine;
} forms[FORMS] = {
	{ "/docker/" ID "(\\.scope)?$", "\1", "docker" },
	{ "/([^/]*:)?cri-containerd[-:]" ID "(\\.scope)?$", "\2", "containerd" },
	{ "/([^/]*:)?libpod-" ID "(\\.scope)?$", "\2", "podman" },
	{ "/([^/]*:)?([^:/]+)[-:]" ID "(\\.scope)?$", "\3", "\2" },
	{ "/" ID "(\\.scope)?$", "\1", "container" },
	{ "/([^/]*-)?pod" UUID "(\\.slice)?$", "\2", "pod" },
	{ "/([^/]*-)?pod" ID "(\\.slice)?$", "\2", "pod" },
	{ "/machine-([^/]+)\\.scope$", "\1", "machine" },
	{ "/systemd-nspawn@([^/]+)\\.service$", "\1", "machine" },
	{ "/lxc\\.payload\\.([^/]+)$", "\1", "lxc" },
	{ "/lxc(\\.payload)?/([^/]+)$", "\2", "lxc" },
	/* Units: */
	{ "/user-([^/]+)\\.slice$", "user-\1", "" },
	{ "/user@([^/]+)\\.service$", "user-\1", "" },
	{ "/([^/]+\\.(service|scope))$", "\1", "" },
};

/* With the characters that systemd writes as \xHH, because the name of a unit may not have them. */
static void put_unescaped(struct text *text, const char *from, size_t length)
{
	for (const char *end = from + length, *next; from < end; from = next) {
		char byte[4] = { *from };

		next = from + 1;
		if (*from == '\\' && next < end && *next == 'x' && escape_take(&next, end, byte) == 0)
			next = from + 1;
		text_put(text, byte, 1);
	}
}

static void put_form(char *ret, size_t size, const char *form, const char *path, const regmatch_t *match)
{
	struct text text = text_make(ret, size);

	for (const char *c = form; *c; c++)
		if (*c < GROUPS)
			put_unescaped(&text, path + match[(size_t)*c].rm_so,
				      (size_t)(match[(size_t)*c].rm_eo - match[(size_t)*c].rm_so));
		else
			text_put(&text, c, 1);
}

static bool name_by_form(size_t number, const char *path, struct tenant_name *ret)
{
	static regex_t compiled[FORMS];
	static bool ready[FORMS];
	regmatch_t match[GROUPS];

	if (!ready[number] && regcomp(&compiled[number], forms[number].regex, REG_EXTENDED) != 0)
		return false;
	ready[number] = true;
	if (regexec(&compiled[number], path, GROUPS, match, 0) != 0)
		return false;
	put_form(ret->name, sizeof(ret->name), forms[number].name, path, match);
	put_form(ret->engine, sizeof(ret->engine), forms[number].engine, path, match);
	/* The name of a slice has underscores in a UUID, because a dash stands for a level. */
	for (char *c = ret->name; streq(ret->engine, "pod") && *c; c++)
		*c = *c == '_' ? '-' : *c;
	return true;
}

/* "ENGINE NAME", behind the prefix. */
static bool name_by_attribute(const char *directory, const char *attribute, const char *prefix, struct tenant_name *ret)
{
	char value[NAME_VALUE_MAX], *engine = value + strlen(prefix), *space;
	ssize_t size = getxattr(directory, attribute, value, sizeof(value) - 1);

	if (size <= 0)
		return false;
	value[size] = '\0';
	if (strncmp(value, prefix, strlen(prefix)) != 0)
		return false;
	space = strchr(engine, ' ');
	if (!space || !space[1])
		return false;
	*space = '\0';
	string_copy(ret->engine, sizeof(ret->engine), engine);
	string_copy(ret->name, sizeof(ret->name), space + 1);
	return true;
}

/* The name of the last component, if it is a container's, or for `any` a unit's. `directory`: NULL if it is not visible. */
static bool name_here(const char *path, const char *directory, bool any, struct tenant_name *ret)
{
	char around[2 * PATH_MAX] = "", claim[sizeof(NAME_CLAIM_ATTRIBUTE) + NAME_MAX], inode[24] = "";
	struct stat status = { 0 };
	bool found = false;

	if (directory) {
		snprintf(around, sizeof(around), "%.*s", (int)(strrchr(directory, '/') - directory), directory);
		snprintf(claim, sizeof(claim), "%s%s", NAME_CLAIM_ATTRIBUTE, strrchr(directory, '/') + 1);
		/* A cgroup that has gone has no claim. */
		if (stat(directory, &status) == 0)
			snprintf(inode, sizeof(inode), "%llu ", (unsigned long long)status.st_ino);
		found = *inode && name_by_attribute(around, claim, inode, ret);
	}
	for (size_t i = 0; !found && i < (any ? FORMS : CONTAINER_FORMS); i++)
		found = name_by_form(i, path, ret);
	/* The owner of the directory around it has chosen what it is called. */
	if (found)
		ret->claimed_by = stat(around, &status) < 0 ? 0 : status.st_uid;
	return found;
}

/* Cuts the path, from its end. */
static void name_by_components(const struct cgroups *cgroups, char *path, struct tenant_name *ret)
{
	struct tenant_name here = { 0 };
	char directory[2 * PATH_MAX];
	bool is_unit = false;

	for (char *slash; (slash = strrchr(path, '/')); *slash = '\0') {
		bool is_visible = cgroup_directory(cgroups, path, directory, sizeof(directory));

		/* Root's name for a container is also that of cgroups which the container makes inside, whatever they are called. */
		if (is_visible && name_by_attribute(directory, NAME_ATTRIBUTE, "", ret)) {
			ret->claimed_by = 0;
			return;
		}
		if (*ret->engine || !name_here(path, is_visible ? directory : NULL, !is_unit, &here))
			continue;
		*ret = here;
		is_unit = true;
	}
}

void tenant_name_make_text(struct tenant_name *name)
{
	struct text text = text_make(name->text, sizeof(name->text));

	text_printf(&text, "%s", name->name);
	if (*name->engine && name->claimed_by != 0)
		text_printf(&text, " (%s of uid %u)", name->engine, name->claimed_by);
	else if (*name->engine)
		text_printf(&text, " (%s)", name->engine);
	else if (name->claimed_by != 0)
		text_printf(&text, " (uid %u)", name->claimed_by);
}

struct tenant_name tenant_name_in(const struct cgroups *cgroups, const char *path)
{
	char at[WIRE_TENANT_MAX + 1], pid[16], *slash;
	struct tenant_name ret = { 0 };
	struct text name = text_make(ret.name, sizeof(ret.name));
	int comm = 0;

	string_copy(at, sizeof(at), path);
	while ((slash = strrchr(at, '/')) && slash > at && !slash[1])
		*slash = '\0';
	/* With --tenants=process. The name is that of a holder of events. */
	if (sscanf(at, "process:%15[0-9]:%n", pid, &comm) == 1 && comm > 0) {
		text_printf(&name, "%s-%s", at + comm, pid);
	} else {
		slash = slash && slash[1] ? slash + 1 : at;
		put_unescaped(&name, slash, strlen(slash));
		name_by_components(cgroups, at, &ret);
	}
	tenant_name_make_text(&ret);
	return ret;
}

const struct tenant_name *tenant_name(const char *path)
{
	static struct cgroups cgroups;
	static bool looked;
	static struct {
		char *path;
		uint64_t until;
		struct tenant_name name;
	} known[64], *one;
	uint64_t now = ctl_now_ns();
	size_t place = 0;

	for (const char *c = path; *c; c++)
		place = place * 31 + (unsigned char)*c;
	one = &known[place % ARRAY_SIZE(known)];
	if (one->path && streq(one->path, path) && now < one->until)
		return &one->name;
	/* Inside a container, whose cgroups are a part of the daemon's, in the namespace of the node's if this process may join that. */
	if (!looked) {
		int r = cgroups_find(NULL, &cgroups);

		if (r == 0 && strncmp(cgroups.root, "/..", 3) == 0) {
			_cleanup_(fd_closep) int fd = open("/proc/1/ns/cgroup", O_RDONLY | O_CLOEXEC);

			if (fd >= 0 && setns(fd, CLONE_NEWCGROUP) == 0)
				r = cgroups_find(NULL, &cgroups);
		}
		if (r < 0)
			cgroups.mount[0] = '\0';
		looked = true;
	}
	free(one->path);
	one->path = must(strdup(path));
	one->until = now + NS_PER_S;
	one->name = tenant_name_in(&cgroups, path);
	return &one->name;
}

const char *tenant_shown(const char *path)
{
	return tenant_shown_as(tenant_name(path), path);
}

const char *tenant_shown_as(const struct tenant_name *name, const char *path)
{
	return *name->engine ? name->text : path;
}

bool tenant_matches(const char *pattern, const struct tenant_name *name, const char *path)
{
	return name_matches(pattern, name->name) || name_matches(pattern, name->text) || name_matches(pattern, path);
}

void tenant_name_json(const struct tenant_name *name, struct json *json)
{
	json_put(json, json_text("name", name->name), json_if(*name->engine, json_text("engine", name->engine)),
		 json_if(name->claimed_by != 0, json_u64("claimed_by", name->claimed_by)));
}
