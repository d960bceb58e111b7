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
 * The innermost component that names a container or a pod counts, else the innermost that names a unit, else the last. A
 * container that makes cgroups inside its own can so choose its name, but not its path, which stands beside it.
 */

#include "client/userevctl/show/tenant_name.h"

#include <ctype.h>
#include <stdio.h>

#include "protocol/base/text.h"

enum {
	ID_LEAST = 32,	  /* hex digits, of a container or a static pod; a shorter one may be a word */
	ID_SHOWN = 12,	  /* as docker ps and podman ps do */
	UUID_LENGTH = 36, /* 8-4-4-4-12 */
	UUID_SHOWN = 13,  /* its first twelve digits and a dash */
};

struct part {
	const char *text;
	size_t length;
};

static struct part part_of(const char *text, size_t length)
{
	return (struct part){ .text = text, .length = length };
}

static bool part_is(struct part part, const char *text)
{
	return part.length == strlen(text) && memcmp(part.text, text, part.length) == 0;
}

/* Cuts off the prefix and the suffix, if it has both and something between. */
static bool part_between(struct part *part, const char *prefix, const char *suffix)
{
	size_t front = strlen(prefix), back = strlen(suffix);

	if (part->length <= front + back || memcmp(part->text, prefix, front) != 0 ||
	    memcmp(part->text + part->length - back, suffix, back) != 0)
		return false;
	*part = part_of(part->text + front, part->length - front - back);
	return true;
}

/* Removes the last component of `path` and returns it. */
static bool take_last(struct part *path, struct part *ret)
{
	size_t end, begin;

	for (end = path->length; end > 0 && path->text[end - 1] == '/';)
		end--;
	for (begin = end; begin > 0 && path->text[begin - 1] != '/';)
		begin--;
	*ret = part_of(path->text + begin, end - begin);
	path->length = begin;
	return end > begin;
}

static int hex_value(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* systemd writes characters that a unit's name may not have as \xHH. */
static bool is_unit_escape(struct part part, size_t at)
{
	return part.length - at >= 4 && part.text[at] == '\\' && part.text[at + 1] == 'x' &&
	       isxdigit((unsigned char)part.text[at + 2]) && isxdigit((unsigned char)part.text[at + 3]) &&
	       memcmp(part.text + at + 2, "00", 2) != 0;
}

static struct tenant_name named(const char *kind, struct part part)
{
	struct tenant_name ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));

	text_printf(&text, "%s", kind);
	for (size_t i = 0; i < part.length; i++) {
		char c = part.text[i];

		if (is_unit_escape(part, i)) {
			c = (char)(hex_value(part.text[i + 2]) << 4 | hex_value(part.text[i + 3]));
			i += 3;
		}
		text_put(&text, &c, 1);
	}
	return ret;
}

static size_t trailing_hex(struct part part)
{
	size_t n = 0;

	while (n < part.length && isxdigit((unsigned char)part.text[part.length - 1 - n]))
		n++;
	return n;
}

/* The text before the id names the engine; if there is none, the parent cgroup may. */
static struct part runtime_of(struct part prefix, struct part parent)
{
	static const char *const known[][2] = { { "cri-containerd", "containerd" }, { "libpod", "podman" } };
	const char *colon = memrchr(prefix.text, ':', prefix.length);

	if (colon)
		prefix = part_of(colon + 1, prefix.length - (size_t)(colon + 1 - prefix.text));
	if (prefix.length == 0)
		return part_is(parent, "docker") ? parent : part_of("container", strlen("container"));
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (part_is(prefix, known[i][0]))
			return part_of(known[i][1], strlen(known[i][1]));
	return prefix;
}

/* "docker-ID.scope", "kubepods-….slice:cri-containerd:ID", "ID" */
static bool name_by_id(struct part part, struct part parent, struct tenant_name *ret)
{
	char text[256 + ID_SHOWN + 1];
	struct part runtime, id;
	size_t digits;

	part_between(&part, "", ".scope");
	digits = trailing_hex(part);
	if (digits < ID_LEAST)
		return false;
	id = part_of(part.text + part.length - digits, ID_SHOWN);
	part.length -= digits;
	if (part.length > 0 && !strchr("-:", part.text[--part.length]))
		return false;
	runtime = runtime_of(part, parent);
	snprintf(text, sizeof(text), "%.*s-%.*s", (int)runtime.length, runtime.text, ID_SHOWN, id.text);
	*ret = named("", part_of(text, strlen(text)));
	return true;
}

/* In a slice's name a dash would stand for a level: systemd's driver writes underscores. */
static bool is_uuid(struct part part)
{
	if (part.length != UUID_LENGTH)
		return false;
	for (size_t i = 0; i < part.length; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? !strchr("-_", part.text[i]) : !isxdigit((unsigned char)part.text[i]))
			return false;
	}
	return true;
}

/* "podUID", "kubepods-burstable-podUID.slice"; a static pod's UID is a hash. */
static bool name_by_pod(struct part part, struct tenant_name *ret)
{
	part_between(&part, "", ".slice");
	for (size_t at = 0; at + 3 < part.length; at++) {
		struct part uid = part_of(part.text + at + 3, part.length - at - 3);

		if (memcmp(part.text + at, "pod", 3) != 0 || (at > 0 && part.text[at - 1] != '-') ||
		    !(is_uuid(uid) || (uid.length >= ID_LEAST && trailing_hex(uid) == uid.length)))
			continue;
		*ret = named("pod-", part_of(uid.text, is_uuid(uid) ? UUID_SHOWN : ID_SHOWN));
		for (char *c = ret->text; *c; c++)
			*c = *c == '_' ? '-' : *c;
		return true;
	}
	return false;
}

static bool name_by_kind(struct part part, struct part parent, struct tenant_name *ret)
{
	static const struct {
		const char *kind, *prefix, *suffix;
	} forms[] = {
		{ "machine-", "machine-", ".scope" },
		{ "machine-", "systemd-nspawn@", ".service" },
		{ "lxc-", "lxc.payload.", "" },
	};
	bool is_machine = part_is(parent, "lxc") || part_is(parent, "lxc.payload");

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (!part_between(&part, forms[i].prefix, forms[i].suffix))
			continue;
		*ret = named(forms[i].kind, part);
		return true;
	}
	if (is_machine)
		*ret = named("lxc-", part);
	return is_machine;
}

static bool name_container(struct part part, struct part parent, struct tenant_name *ret)
{
	return name_by_id(part, parent, ret) || name_by_pod(part, ret) || name_by_kind(part, parent, ret);
}

static bool name_unit(struct part part, struct part parent, struct tenant_name *ret)
{
	struct part user = part, stem = part;

	(void)parent;
	if (part_between(&user, "user-", ".slice") || part_between(&user, "user@", ".service"))
		*ret = named("user-", user);
	else if (part_between(&stem, "", ".service") || part_between(&stem, "", ".scope"))
		*ret = named("", part);
	else
		return false;
	return true;
}

static bool name_innermost(struct part path, bool (*name)(struct part, struct part parent, struct tenant_name *),
			   struct tenant_name *ret)
{
	struct part part, above, parent;

	while (take_last(&path, &part)) {
		above = path;
		take_last(&above, &parent);
		if (name(part, parent, ret))
			return true;
	}
	return false;
}

/* With --tenants=process: "process:PID:COMM", in which anything may stand. Named as holders of events are. */
static bool name_process(struct part path, struct tenant_name *ret)
{
	char text[64];
	const char *comm;

	if (!part_between(&path, "process:", "") || !(comm = memchr(path.text, ':', path.length)))
		return false;
	snprintf(text, sizeof(text), "%.*s-%.*s", (int)(path.length - (size_t)(comm + 1 - path.text)), comm + 1,
		 (int)(comm - path.text), path.text);
	string_copy(ret->text, sizeof(ret->text), text);
	return true;
}

struct tenant_name tenant_name(const char *path, size_t length)
{
	struct part whole = part_of(path, length), rest = whole, last;
	struct tenant_name ret;

	if (name_process(whole, &ret) || name_innermost(whole, name_container, &ret) ||
	    name_innermost(whole, name_unit, &ret))
		return ret;
	return take_last(&rest, &last) ? named("", last) : named("", whole);
}
