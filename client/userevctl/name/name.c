/* SPDX-License-Identifier: GPL-2.0-or-later */

/* name: says how a container is called. Engines run it as a hook; then nothing that goes wrong may keep the container from starting. */

#include "client/userevctl/name/name.h"

#include <stdio.h>

#include "client/userevctl/ctl.h"
#include "daemon/identity/cgroup.h"

struct naming_options {
	const char *engine;
	bool oci_hook;
};

/* 0, or a negative errno. */
static int write_checked(const struct cgroups *cgroups, const char *path, const char *engine, const char *name)
{
	int r;

	for (const char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f) {
			ctl_error("the name '%s' has a control character.", excerpt_of(name).text);
			return -EINVAL;
		}
	if (!*name || strlen(name) > TENANT_NAME_MAX) {
		ctl_error("the name has %zu bytes; 1 to %d are possible.", strlen(name), TENANT_NAME_MAX);
		return -EINVAL;
	}
	if (!*engine || strlen(engine) > ENGINE_NAME_MAX ||
	    strspn(engine, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(engine)) {
		ctl_error("'%s' is no name of an engine: up to %d of a-z, 0-9, '-', '_' and '.'.",
			  excerpt_of(engine).text, ENGINE_NAME_MAX);
		return -EINVAL;
	}
	r = name_write(cgroups, path, engine, name);
	if (r < 0)
		ctl_error("cannot name the cgroup %s: %s.", excerpt_of(path).text, strerror(-r));
	return r;
}

/* Cuts the path behind the last component that has this text in its name; false: none has, and the path stays. */
static bool cut_behind(char *path, const char *text)
{
	for (char *end = path + strlen(path), *slash; end > path; end = slash) {
		char rest = *end;

		*end = '\0';
		slash = strrchr(path, '/');
		if (!slash || strstr(slash, text))
			return slash;
		*end = rest;
	}
	return false;
}

/* Its pod's cgroup is around it: with the UID as it is, or with underscores in the name of a slice. */
static void name_pod(const struct cgroups *cgroups, struct naming *naming, char *path)
{
	char text[sizeof(naming->pod_uid) + 3];
	bool found;

	snprintf(text, sizeof(text), "pod%s", naming->pod_uid);
	found = cut_behind(path, text);
	for (char *c = text; *c; c++)
		*c = *c == '-' ? '_' : *c;
	if (*naming->pod_uid && (found || cut_behind(path, text)))
		write_checked(cgroups, path, naming->engine, naming->pod);
}

static void name_by_hook(const struct cgroups *cgroups)
{
	size_t size;
	/* The runtime closes its end behind the state. */
	_cleanup_(freep) char *state = read_whole(STDIN_FILENO, &size);
	struct naming naming;
	char path[PATH_MAX], own[PATH_MAX];

	if (!naming_of_oci_state(state, size, &naming)) {
		ctl_error("no state of a container came on the standard input.");
		return;
	}
	if (cgroup_of_process(cgroups, naming.pid, path, sizeof(path)) < 0) {
		ctl_error("there is no process %d.", (int)naming.pid);
		return;
	}
	if (!*naming.id || !cut_behind(path, naming.id))
		ctl_error("the cgroup %s is not this container's own: its id is not in it.", excerpt_of(path).text);
	/* In the container's cgroup we would be the container, or not see where it is. */
	else if (cgroup_of_process(cgroups, getpid(), own, sizeof(own)) < 0 || cgroup_is_inside(own, path))
		ctl_error("the hook runs in the container's own cgroup, %s, which so gets no name.",
			  excerpt_of(path).text);
	else if (write_checked(cgroups, path, naming.engine, naming.name) == 0)
		name_pod(cgroups, &naming, path);
}

static int name_run(struct ctl *ctl)
{
	struct naming_options options = { .engine = "container" };
	struct cgroups cgroups;

	options_read(ctl, &options, 0, 2);
	if (cgroups_find(NULL, &cgroups) < 0)
		cgroups.mount[0] = '\0';
	if (options.oci_hook) {
		name_by_hook(&cgroups);
		return EXIT_DONE;
	}
	ctl_expect_arguments(ctl, 2, 2);
	if (ctl->argv[0][0] != '/') {
		ctl_error("'%s' is no cgroup: its path begins with '/', such as /machine.slice/machine-web.scope.",
			  excerpt_of(ctl->argv[0]).text);
		return EXIT_USAGE;
	}
	return write_checked(&cgroups, ctl->argv[0], options.engine, ctl->argv[1]) < 0 ? EXIT_REFUSED : EXIT_DONE;
}

COMMAND(name, "CGROUP NAME", NULL,
	OPTIONS(TEXT_ROW("engine", "ENGINE", struct naming_options, engine, "that the container is of"),
		FLAG_ROW("oci-hook", struct naming_options, oci_hook, "take all from an OCI runtime; never fail")),
	"Writes the NAME beside the container's CGROUP, where all commands that show\n"
	"tenants find it. The name is root's word; another user's is shown as a claim.\n"
	"Engines run it as a hook: see userevd-containers(7).");
