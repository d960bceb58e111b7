/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The users of an event by name. The kernel tells only their kinds: an instance of tracefs uses the event if the enable file there says
 * so, "1" for its records and "1*" or "0*" for a trigger. The kernel keeps no process for users of perf.
 */

#include "client/userevctl/tracing/users.h"

#include "client/userevctl/session/session.h"
#include "client/userevctl/tracing/tracefs.h"
#include "protocol/base/array.h"

struct search {
	const struct event *event;
	struct users *users;
};

static void users_add(struct users *users, const char *before, const char *name)
{
	users->name = must(array_grow(users->name, users->n, sizeof(*users->name)));
	must(asprintf(&users->name[users->n], "%s%s", before, name) < 0 ? NULL : users);
	users->n++;
}

static bool is_in_use(struct tracefs_instance *instance, const struct event *event)
{
	_cleanup_(freep) char *text = tracefs_event_file_read(instance, event->system, event->shown, "enable", NULL);

	return text && strpbrk(text, "1*");
}

static int add_instance(const char *name, void *data)
{
	const struct search *search = data;
	struct tracefs_instance *instance = must(tracefs_instance_alloc(NULL, name));
	const char *session = session_of_instance(name);

	if (is_in_use(instance, search->event))
		users_add(search->users,
			  session			? "session "
			  : text_instance_pid(name) > 0 ? ""
							: "instance ",
			  session ? session : safe_string(name).text);
	tracefs_instance_free(instance);
	return 0;
}

void users_find(const struct event *event, struct users *ret)
{
	struct search search = { event, ret };

	*ret = (struct users){ 0 };
	if (event->used_by & USED_BY_FTRACE && event->system && text_is_file_name(event->shown)) {
		if (is_in_use(NULL, event))
			users_add(ret, "", user_names[0]);
		tracefs_instances_walk(add_instance, &search);
	}
	for (unsigned i = 0; i < USERS; i++)
		if (event->used_by & 1U << i && (i > 0 || ret->n == 0))
			users_add(ret, "", user_names[i]);
}

void users_put(const struct event *event, struct text *to)
{
	_cleanup_(users_deinit) struct users users;

	users_find(event, &users);
	for (size_t i = 0; i < users.n; i++)
		text_printf(to, "%s%s", i > 0 ? ", " : "", users.name[i]);
}

void users_deinit(struct users *users)
{
	while (users->n > 0)
		free(users->name[--users->n]);
	free(users->name);
}
