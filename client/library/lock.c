/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The lock is held while the daemon is asked, so fork() waits for that (pthread_atfork); the child then finds consistent data and
 * a free lock. Thread cancellation is disabled while the lock is held.
 *
 * Children that bypass pthread_atfork (a raw clone(2)) are detected by memory that the kernel wipes in them (MADV_WIPEONFORK). The
 * buffer for packets lies there, too, so that a program touches a page less. After vfork(), which shares memory, it is not wiped.
 * Where the kernel does not have that, only fork() is detected.
 *
 * lock_try() blocks signals: the program did not call the library, so a signal handler of its own may fork().
 */

#include <pthread.h>
#include <sys/mman.h>

#include "client/library/lock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void (*on_child)(void);
struct lock_memory *lock_memory;
bool lock_is_explicit = true;

static void lock_become_child(void)
{
	on_child();
	lock_memory->is_parent = 1;
}

static void lock_begin(bool explicitly)
{
	lock_is_explicit = explicitly;
	if (lock_memory && *(volatile uint64_t *)&lock_memory->is_parent == 0)
		lock_become_child();
}

struct lock lock_enter(void)
{
	struct lock lock = { .saved_errno = errno };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &lock.cancel_state);
	pthread_mutex_lock(&mutex);
	lock_begin(true);
	return lock;
}

static void lock_restore(const struct lock *lock)
{
	pthread_setcancelstate(lock->cancel_state, NULL);
	if (lock->signals_are_blocked)
		pthread_sigmask(SIG_SETMASK, &lock->signals, NULL);
	errno = lock->saved_errno;
}

void lock_leave(struct lock *lock)
{
	pthread_mutex_unlock(&mutex);
	lock_restore(lock);
}

bool lock_try(struct lock *ret)
{
	sigset_t all_signals;

	ret->saved_errno = errno;
	ret->signals_are_blocked = true;
	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &ret->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ret->cancel_state);
	if (pthread_mutex_trylock(&mutex) == 0) {
		lock_begin(false);
		return true;
	}
	lock_restore(ret);
	return false;
}

static void lock_before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

static void lock_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

static void lock_after_fork_in_child(void)
{
	int saved_errno = errno;

	lock_become_child();
	pthread_mutex_unlock(&mutex);
	errno = saved_errno;
}

int lock_watch_forks(void (*become_child)(void))
{
	struct lock_memory *memory;

	if (on_child)
		return 0;
	memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	if (pthread_atfork(lock_before_fork, lock_after_fork_in_parent, lock_after_fork_in_child) != 0) {
		munmap(memory, sizeof(*memory));
		return -ENOMEM;
	}
	madvise(memory, sizeof(*memory), MADV_WIPEONFORK);
	on_child = become_child;
	lock_memory = memory;
	lock_memory->is_parent = 1;
	return 0;
}
