/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The kernel's user_events in either ABI: pages, streams, and registrations. A holding is an event on a tenant's page (one bit); a
 * slot is its registration on one stream (one index). A holding lives as long as its slots. struct user_events_abi hides what differs
 * between the ABIs.
 */

#include <sys/queue.h>

#include "kernel/bits.h"
#include "kernel/kernel.h"
#include "kernel/native.h"
#include "kernel/page_file.h"
#include "kernel/user_events/spawner.h"
#include "protocol/base/table.h"

struct user_events;

LIST_HEAD(enabler_list, enabler_process);
TAILQ_HEAD(stream_queue, event_stream);
SLIST_HEAD(unwanted_list, unwanted);

/* Directories of the keeper's own mounts; see kernel/keeper/mounts.c. */
struct mounts {
	int tracefs;
	int pages;	     /* writable; before Linux 6.4 for names of events */
	int pages_read_only; /* the same files; before Linux 6.4 a mount of tracefs */
	uint64_t tracefs_id; /* of the mount, for the guard */
	int native;	     /* the file that containers get; -1: they get none */
	int native_files[NATIVE_FILES];
};

/* Bytes of the data file for streams' locks. */
struct places {
	int fd; /* an open data file that never leaves the process; it has a lock from `next` to the end of the range */
	uint64_t first;
	uint64_t next;
};

struct enabler_process {
	pid_t pid;
	int fd;
	uint32_t enablers;
	LIST_ENTRY(enabler_process) entry;
};

struct event_page {
	uint32_t number;
	uint32_t id; /* for enabler processes: a number may be used again while they still have the page */
	uint32_t streams;
	int fd; /* writable; -1: the page is the kernel's */
	int client_fd;
	bool known;		  /* to this daemon; otherwise only its predecessor had it */
	bool disowned;		  /* has no number, and ends with its last stream */
	struct bits bits;	  /* since Linux 6.4 their owners are holdings */
	struct holding *holdings; /* table by name; of many formats by text */
	UT_hash_handle by_number;
};

struct slot {
	struct holding *holding;
	uint32_t index;
	UT_hash_handle by_holding;
};

struct holding {
	struct event_page *page; /* in whose tables it is */
	uint32_t bit;
	uint32_t slots;
	uint16_t flags;
	uint16_t text_length;
	bool foreign;			 /* before Linux 6.4: the event existed before */
	bool placed;			 /* otherwise it is not registered yet, and that may fail */
	uint16_t state;			 /* KERNEL_STATES: with any of them it has no enabler; see silence.c */
	struct enabler_process *process; /* which has its enabler, or will have it; before Linux 6.4 NULL */
	UT_hash_handle by_key;
	struct slot first; /* in use while it has slots, unless its stream was freed before other streams */
	char text[];
};

#define WITNESS_PREFIX "userevd_" /* of its name; random digits follow */
enum { WITNESS_DIGITS = 32, WITNESS_SIZE = sizeof(WITNESS_PREFIX) + WITNESS_DIGITS };

struct event_stream {
	uint32_t number;
	struct event_page *page;
	int fd;	       /* -1: closed; only its lock or witness tells whether other copies are open */
	uint64_t lock; /* its byte of the data file */
	bool known;    /* as of a page */
	struct slot *slots;
	uint32_t next_index;  /* the kernel's next one, if no other program registers on the stream */
	bool self_registered; /* another program has registered on it */
	/* An event that exists only on this file, while it lingers unguarded; "": none. */
	char witness[WITNESS_SIZE];
	UT_hash_handle by_number;
	TAILQ_ENTRY(event_stream) in_disowned;
};

/* The page and the stream that a call names. */
struct target {
	struct event_page *page; /* or NULL */
	struct event_stream *stream;
};

enum { AT_ONCE = 100 }; /* events in one request to an enabler process */

/* New holdings with enablers in one process, to be registered on one stream; ADOPT has them on the stream already. */
struct placement {
	struct event_stream *stream;
	size_t n;
	struct holding *holdings[AT_ONCE]; /* with their first slot */
	struct kernel_call *calls[AT_ONCE];
};

/* Whether a holding's bit is what the kernel's enabler makes it. */
enum bit_rule { BIT_FOLLOWS, BIT_OFF, BIT_ON };

/* Holdings of one process that lose their enablers, or get them back. */
struct silencing {
	enum bit_rule rule;
	size_t n;
	struct holding *holdings[AT_ONCE];
	uint16_t before[AT_ONCE]; /* their states, which they have again if the call fails */
	struct kernel_call *calls[AT_ONCE];
};

/* 0, an enum kernel_answer, or a negative errno, unless something else is said. */
struct user_events_abi {
	/* Makes a page's files. */
	int (*page_new)(struct user_events *, struct event_page *);
	/* Takes a bit for a new holding (ADOPT: the one in the holding) and room for its enabler. NULL: nothing to do. */
	int (*take_place)(struct user_events *, struct event_page *, struct holding *);
	/* Undoes take_place(). */
	void (*give_place)(struct user_events *, struct holding *);
	/*
	 * Registers new holdings on the file, the stream's or one of our own: sets the calls' results, which are answers, the slots' indexes,
	 * and the holdings' bits if the kernel chooses them.
	 */
	void (*place)(struct user_events *, struct placement *, int file);
	/* Registers an event on a file, if it still has this bit; 0: sets it, if the kernel chooses bits. */
	int (*join)(int file, const char *text, uint16_t flags, uint32_t *bit, uint32_t *ret_index);
	/* The witness is not needed any more, and may still exist. NULL: it ends by itself. */
	void (*forget_witness)(struct user_events *, const char *name);
	/*
	 * Takes the enablers of holdings away, or gives them back: sets the results of the calls, negative errnos. NULL: the page is the
	 * kernel's own.
	 */
	void (*silence)(struct user_events *, struct silencing *);
	/* Removes events whose last slot has gone; at most AT_ONCE. */
	void (*remove)(struct user_events *, struct holding *const *, size_t n);
	/* The daemon has taken over everything that it goes on with. NULL: nothing to do. */
	void (*disowned)(struct user_events *);
	/* The kernel's fd is readable. */
	int (*dispatch)(struct user_events *);
	/* At the end, without pages and streams. */
	void (*deinit)(struct user_events *);
};

struct user_events {
	struct kernel kernel; /* its fd: an epoll of the enabler processes and timers */
	const struct user_events_abi *abi;
	struct mounts mounts;
	struct page_files files;
	int data; /* a data file of our own, with nothing registered on it */
	int list; /* the kernel's list of all events; or negative */
	struct places places;
	uint32_t witnesses; /* events */
	uint32_t next_page; /* id */
	struct event_page *pages;
	struct event_stream *streams;
	struct stream_queue disowned; /* the one that was checked last is the last */
	int disowned_timer;	      /* runs while there are any */
	struct event_page shared;     /* before Linux 6.4: has all holdings */
	int status;		      /* before Linux 6.4: what clients get */
	int timer;		      /* before Linux 6.4: while there are unwanted events */
	struct unwanted_list unwanted;
	int instance; /* before Linux 6.4: of tracefs, in which a predecessor's events are on; otherwise -1 */
	bool settled; /* before Linux 6.4: the records are this keeper's, or those of a predecessor have been dealt with */
	unsigned pause; /* before Linux 6.4: seconds until the next look at a predecessor's files; 0: there is none */
	bool ending;	/* programs keep their events */
	struct spawner spawner;
	struct enabler_list enablers;
	char no_native[WIRE_SENTENCE_MAX + 1];
	struct placement placement; /* not sent yet */
	struct silencing silencing; /* likewise */
};

/* --- user_events.c --- */

/* Takes the mounts over. 0, or a negative errno. */
int user_events_new(enum wire_backend, const struct mounts *, const struct kernel_limits *, struct kernel **ret);
/* A page without files. */
struct event_page *user_events_page_add(struct user_events *, uint32_t number);
/* Takes its number away, and frees it as soon as it has no stream any more: all that are left are disowned. */
void user_events_page_free(struct user_events *, struct event_page *);
struct event_stream *user_events_stream_add(struct user_events *, uint32_t number, struct event_page *, uint64_t lock,
					    int fd);
void user_events_stream_free(struct user_events *, struct event_stream *);
void user_events_disowned_free(struct user_events *, struct event_stream *);

/* --- enable_address.c, status_page.c: fill in their part; 0 or a negative errno --- */

int enable_address_init(struct user_events *, const struct kernel_limits *);
int status_page_init(struct user_events *);
