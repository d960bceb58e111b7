/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Reads the policy files: at the start, on SIGHUP, on RELOAD, and where a kubelet renews them. reload.c explains. */

#include <ev.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "protocol/base/base.h"
#include "protocol/protocol.h"

struct daemon;

/* Begins as zeros. */
struct reload {
	pthread_t thread;
	bool has_thread;	 /* to be joined */
	struct outcome *outcome; /* the thread's; NULL: no thread reads */
	struct outcome *next;	 /* of a reload that was requested meanwhile; NULL: none was */
	_Atomic bool is_filled;	 /* the thread is done: the loop may wake for another reason */
	ev_async w_done;
	ev_stat w_link;
	char link[PATH_MAX];
	int watch; /* of the directories, while w_watch is active */
	ev_io w_watch;
	ev_timer w_settled; /* since their last change */
	time_t loaded;	    /* the policy in force */
	uint64_t digest;    /* of its files */
	uint64_t n;	    /* reloads so far */
	/* That an older policy is in force, since the files have errors; "": the files are in force. */
	char note[WIRE_SENTENCE_MAX + 1];
};

/* Checks the policy against the kernel's capacity. 0, or POLICY_E_WRONG after a line in the log. */
int reload_check_capacity(struct daemon *);
/* At the start: reads the files, or the copy of the last good ones. 0; or POLICY_E_WRONG or a negative errno, after lines in the log. */
int reload_first(struct daemon *);
/* Once the daemon has become its user: keeps a copy of the files of the policy in force. */
void reload_keep_first(struct daemon *);

/* Needs the daemon's loop. */
void reload_init(struct daemon *);
void reload_deinit(struct daemon *);
/* Reads the files again, in a thread. The outcome is logged. */
void reload_begin(struct daemon *);
