/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The state of a container, as OCI runtimes write it to their hooks, has its id, the pid, the directory of its files ("bundle") and the
 * engine's annotations. Where the name is depends on the engine:
 *
 *	containerd, CRI-O	annotations, of a pod's container
 *	Podman, CRI-O's own	names in containers.json, two directories above the bundle
 *	nerdctl			an annotation
 *	ctr, crun, runc		the id
 *
 * Docker has no hooks; see userevd-docker-names.service.
 */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>

#include "client/userevctl/name/json_reader.h"
#include "client/userevctl/name/name.h"
#include "protocol/base/number.h"
#include "protocol/base/text.h"

enum { WHOLE_MAX = 16 << 20, PIECE = 1 << 16, INPUT_WAIT_MS = 1000 };

char *read_whole(int fd, size_t *ret_size)
{
	struct pollfd input = { .fd = fd, .events = POLLIN };
	char *text = malloc(PIECE), *more = text;
	ssize_t n = fd < 0 ? 0 : 1;

	for (*ret_size = 0; more && n > 0 && *ret_size < WHOLE_MAX && poll(&input, 1, INPUT_WAIT_MS) > 0;) {
		n = read(fd, text + *ret_size, PIECE - *ret_size % PIECE);
		*ret_size += (size_t)MAX(n, 0);
		more = *ret_size % PIECE == 0 ? realloc(text, *ret_size + PIECE) : text;
		text = more ? more : text;
	}
	fd_close(fd);
	return text;
}

static bool annotation(struct json_value annotations, const char *key, char *ret, size_t size)
{
	return json_string_of(json_member(annotations, key), ret, size) && *ret;
}

/* "NAMESPACE/POD/CONTAINER", and "NAMESPACE/POD" for the pod. */
static bool name_of_pod(struct json_value annotations, struct naming *ret)
{
	static const char *const keys[][4] = {
		{ "io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name",
		  "io.kubernetes.cri.sandbox-uid", "io.kubernetes.cri.container-name" },
		{ "io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.pod.uid",
		  "io.kubernetes.container.name" },
	};
	char space[128], pod[256], container[128];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct text text = text_make(ret->pod, sizeof(ret->pod)),
			    whole = text_make(ret->name, sizeof(ret->name));

		if (!annotation(annotations, keys[i][0], space, sizeof(space)) ||
		    !annotation(annotations, keys[i][1], pod, sizeof(pod)))
			continue;
		annotation(annotations, keys[i][2], ret->pod_uid, sizeof(ret->pod_uid));
		text_printf(&text, "%s/%s", space, pod);
		text_printf(&whole, "%s", ret->pod);
		if (annotation(annotations, keys[i][3], container, sizeof(container)))
			text_printf(&whole, "/%s", container);
		string_copy(ret->engine, sizeof(ret->engine), "pod");
		return !text.cut && !whole.cut;
	}
	return false;
}

/* The first name of the entry with this id. */
static bool name_of_storage(const char *bundle, struct naming *ret)
{
	_cleanup_(freep) char *text = NULL;
	char path[PATH_MAX + 32], id[sizeof(ret->id)];
	struct json_value array, entry, names, name;
	size_t size;

	snprintf(path, sizeof(path), "%s/../../containers.json", bundle);
	text = read_whole(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), &size);
	array = (struct json_value){ text, text + size };
	while (json_next(&array, &entry)) {
		names = json_member(entry, "names");
		if (json_string_of(json_member(entry, "id"), id, sizeof(id)) && streq(id, ret->id) &&
		    json_next(&names, &name))
			return json_string_of(name, ret->name, sizeof(ret->name));
	}
	return false;
}

static void find_name(struct json_value annotations, const char *bundle, struct naming *ret)
{
	char manager[32] = "";

	if (name_of_pod(annotations, ret))
		return;
	annotation(annotations, "io.container.manager", manager, sizeof(manager));
	string_copy(ret->engine, sizeof(ret->engine),
		    streq(manager, "libpod")	     ? "podman"
		    : strstr(bundle, "/containerd/") ? "containerd"
						     : "container");
	if (name_of_storage(bundle, ret) || annotation(annotations, "nerdctl/name", ret->name, sizeof(ret->name)))
		return;
	string_copy(ret->name, sizeof(ret->name), ret->id);
}

bool naming_of_oci_state(const char *text, size_t size, struct naming *ret)
{
	const struct json_value state = { text, text + size }, number = json_member(state, "pid");
	char bundle[PATH_MAX];
	uint64_t pid;

	*ret = (struct naming){ 0 };
	if (!json_string_of(json_member(state, "id"), ret->id, sizeof(ret->id)) ||
	    !json_string_of(json_member(state, "bundle"), bundle, sizeof(bundle)) ||
	    number_parse(number.at, (size_t)(number.end - number.at), INT32_MAX, &pid) != NUMBER_GOOD || pid == 0)
		return false;
	ret->pid = (pid_t)pid;
	find_name(json_member(state, "annotations"), bundle, ret);
	return true;
}
