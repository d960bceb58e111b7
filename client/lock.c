/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The one mutex. It is held while the daemon is asked, so a fork waits for that: the child then finds everything whole, and
 * the mutex free. A thread that is to be cancelled is so when it has left.
 */

#include <pthread.h>

#include "client/library.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(adopted, userev) adopted = LIST_HEAD_INITIALIZER(adopted);

struct entered library_enter(void)
{
	struct entered entered = { .saved_errno = errno };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &entered.cancel_state);
	pthread_mutex_lock(&mutex);
	return entered;
}

void library_leave(struct entered *entered)
{
	pthread_mutex_unlock(&mutex);
	pthread_setcancelstate(entered->cancel_state, NULL);
	errno = entered->saved_errno;
}

static void before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

/* A copy of the connection would hide our parent's end from the daemon. */
static void after_fork_in_child(void)
{
	struct userev *userev;

	LIST_FOREACH(userev, &adopted, entry)
		connection_abandon(userev);
	pthread_mutex_unlock(&mutex);
}

int library_adopt(struct userev *userev)
{
	static bool fork_is_watched;

	if (!fork_is_watched && pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
		return -ENOMEM;
	fork_is_watched = true;
	LIST_INSERT_HEAD(&adopted, userev, entry);
	return 0;
}

void library_disown(struct userev *userev)
{
	LIST_REMOVE(userev, entry);
}
