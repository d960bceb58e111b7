/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The one mutex. It is held while the daemon is asked, so a fork waits for that: the child then finds everything whole, and
 * the mutex free. A thread that is to be cancelled is so when it has left.
 *
 * A child that libc was not told of is found by a page that the kernel wipes in it. After a vfork, which shares memory, it is
 * not wiped: whoever is in here then speaks for its parent. (Where there is no such page, only fork() is noticed.)
 *
 * Who comes in here without having called the library must not be interrupted with the mutex: a handler may fork.
 */

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "client/library/library.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(adopted, userev) adopted = LIST_HEAD_INITIALIZER(adopted);
static unsigned char *at_home; /* 0 in a child */
static bool is_asked = true;

static void at_home_map(void)
{
	static unsigned char never_wiped;
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	at_home = mapped == MAP_FAILED ? &never_wiped : mapped;
	if (mapped != MAP_FAILED)
		madvise(mapped, size, MADV_WIPEONFORK);
	*at_home = 1;
}

static bool is_at_home(void)
{
	return !at_home || *(volatile unsigned char *)at_home != 0;
}

bool library_is_asked(void)
{
	return is_asked;
}

/* A copy of the connection would hide our parent's end from the daemon. */
static void become_the_child(void)
{
	struct userev *userev;

	LIST_FOREACH(userev, &adopted, entry)
		connection_abandon(userev);
	if (at_home)
		*at_home = 1;
}

static void begin(bool asked)
{
	is_asked = asked;
	if (!is_at_home())
		become_the_child();
}

struct entered library_enter(void)
{
	struct entered entered = { .saved_errno = errno };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &entered.cancel_state);
	pthread_mutex_lock(&mutex);
	begin(true);
	return entered;
}

void library_leave(struct entered *entered)
{
	pthread_mutex_unlock(&mutex);
	pthread_setcancelstate(entered->cancel_state, NULL);
	errno = entered->saved_errno;
}

static void undisturbed(struct entered *ret)
{
	sigset_t all;

	ret->saved_errno = errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &ret->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ret->cancel_state);
}

static void as_before(const struct entered *entered)
{
	pthread_setcancelstate(entered->cancel_state, NULL);
	pthread_sigmask(SIG_SETMASK, &entered->signals, NULL);
	errno = entered->saved_errno;
}

bool library_enter_quietly(struct entered *ret)
{
	undisturbed(ret);
	if (pthread_mutex_trylock(&mutex) == 0) {
		begin(false);
		return true;
	}
	as_before(ret);
	return false;
}

void library_leave_quietly(const struct entered *entered)
{
	pthread_mutex_unlock(&mutex);
	as_before(entered);
}

static void before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
	int saved_errno = errno;

	become_the_child();
	pthread_mutex_unlock(&mutex);
	errno = saved_errno;
}

int library_adopt(struct userev *userev)
{
	static bool fork_is_watched;

	if (!fork_is_watched && pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
		return -ENOMEM;
	fork_is_watched = true;
	if (!at_home)
		at_home_map();
	LIST_INSERT_HEAD(&adopted, userev, entry);
	return 0;
}

void library_disown(struct userev *userev)
{
	LIST_REMOVE(userev, entry);
}
