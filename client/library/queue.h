/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues of structures that have a QUEUE_ENTRY named `entry`. They are the tail queues of <sys/queue.h>, which musl does not have.
 * `link` is the pointer to the structure, so that one is removed without a search.
 */

#include <stddef.h>

#define QUEUE(name, type)                                                                                              \
	struct name {                                                                                                  \
		struct type *first;                                                                                    \
		struct type **end;                                                                                     \
	}
#define QUEUE_ENTRY(type)                                                                                              \
	struct {                                                                                                       \
		struct type *next;                                                                                     \
		struct type **link;                                                                                    \
	}

#define QUEUE_INITIALIZER(queue)                                                                                       \
	{                                                                                                              \
		NULL, &(queue).first                                                                                   \
	}
#define QUEUE_INIT(queue) ((queue)->first = NULL, (void)((queue)->end = &(queue)->first))

#define QUEUE_FIRST(queue)	     ((queue)->first)
#define QUEUE_NEXT(member)	     ((member)->entry.next)
#define QUEUE_FOREACH(member, queue) for ((member) = (queue)->first; (member); (member) = (member)->entry.next)

/* Where the pointer to the next structure is: its link, or the queue's end. */
#define QUEUE_LINK_BEHIND(queue, member) (*((member)->entry.next ? &(member)->entry.next->entry.link : &(queue)->end))

#define QUEUE_PREPEND(queue, member)                                                                                   \
	do {                                                                                                           \
		(member)->entry.next = (queue)->first;                                                                 \
		(member)->entry.link = &(queue)->first;                                                                \
		QUEUE_LINK_BEHIND(queue, member) = &(member)->entry.next;                                              \
		(queue)->first = (member);                                                                             \
	} while (0)

#define QUEUE_APPEND(queue, member)                                                                                    \
	do {                                                                                                           \
		(member)->entry.next = NULL;                                                                           \
		(member)->entry.link = (queue)->end;                                                                   \
		*(queue)->end = (member);                                                                              \
		(queue)->end = &(member)->entry.next;                                                                  \
	} while (0)

#define QUEUE_REMOVE(queue, member)                                                                                    \
	do {                                                                                                           \
		QUEUE_LINK_BEHIND(queue, member) = (member)->entry.link;                                               \
		*(member)->entry.link = (member)->entry.next;                                                          \
	} while (0)

/* All of `from` behind `to`. */
#define QUEUE_CONCAT(to, from)                                                                                         \
	do {                                                                                                           \
		if ((from)->first) {                                                                                   \
			*(to)->end = (from)->first;                                                                    \
			(from)->first->entry.link = (to)->end;                                                         \
			(to)->end = (from)->end;                                                                       \
			QUEUE_INIT(from);                                                                              \
		}                                                                                                      \
	} while (0)
