/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The kernel's user_events, whichever of its two ABIs: pages, streams, and what is registered where. An event that a tenant
 * has on its page is a holding (one bit); what is registered on one stream of it is a slot (one index). The slots keep the
 * holding. What differs between the ABIs is behind struct user_events_abi.
 */

#include <sys/queue.h>

#include "kernel/bits.h"
#include "kernel/kernel.h"
#include "kernel/page_file.h"
#include "kernel/user_events/left_behind.h"
#include "protocol/base/table.h"

struct event_page;
struct job;
struct event_stream;
struct holding;
struct placement;
struct user_events;

LIST_HEAD(holding_list, holding);
LIST_HEAD(page_map_list, page_map);
LIST_HEAD(enabler_list, enabler_process);
TAILQ_HEAD(placement_queue, placement);
TAILQ_HEAD(stream_queue, event_stream);
SLIST_HEAD(unwanted_list, unwanted);

/* Directories of the keeper's own; see mounts.c. */
struct mounts {
	int tracefs;
	int pages;	     /* writable; the names of events where the kernel has a page of its own; or -1 */
	int pages_read_only; /* the same files; or tracefs, where that page is */
	uint64_t tracefs_id; /* of the mount; what the guard compares */
};

/* Bytes of the data file for streams' locks. */
struct places {
	int fd; /* an open data file that never leaves; it has a lock on all of: */
	uint64_t next;
	uint64_t end;
	uint64_t first; /* where this keeper's ranges begin: they lie one behind the other */
};

/* A page in the memory of a process that holds enablers for it. */
struct page_map {
	struct event_page *page;
	struct enabler_process *process;
	uint32_t enablers;
	LIST_ENTRY(page_map) in_page;
	LIST_ENTRY(page_map) in_process;
};

struct enabler_process {
	pid_t pid;
	int fd;
	bool broken; /* is about to end, and is asked nothing any more */
	uint32_t enablers;
	uint32_t maps;
	struct page_map_list mapped;
	struct holding_list holdings;
	struct placement_queue asked; /* and not answered, the oldest first */
	unsigned n_asked;
	LIST_ENTRY(enabler_process) entry;
};

struct event_page {
	uint32_t number;
	uint32_t id; /* for processes of enablers: a number may be given again while they still have the page */
	uint32_t streams;
	uint32_t disowned_streams; /* of these */
	int fd;			   /* writable; -1: nobody's but the kernel's */
	int client_fd;
	bool known;    /* to this daemon; else it was the last one's */
	bool disowned; /* has no number, and goes with its last stream */
	struct bits bits;
	struct holding *holdings; /* table by key */
	struct page_map_list maps;
	UT_hash_handle by_number;
};

struct holding {
	struct event_page *page; /* in whose table it is */
	uint32_t bit;
	uint32_t slots;
	uint16_t flags;
	bool foreign;	      /* status page: was there before us */
	bool placed;	      /* else it is under way, and may come to nothing */
	bool enabled;	      /* its enabler is there */
	struct page_map *map; /* where its enabler is, or is to be; NULL: none */
	LIST_ENTRY(holding) in_process;
	UT_hash_handle by_key;
	char *text; /* the description, in the key */
	char key[]; /* what tells it from others of its name, then the description */
};

struct slot {
	struct holding *holding;
	uint32_t index;
	UT_hash_handle by_holding;
};

#define WITNESS_PREFIX "userevd_" /* of its name; random digits follow */
enum { WITNESS_DIGITS = 32, WITNESS_SIZE = sizeof(WITNESS_PREFIX) + WITNESS_DIGITS };

struct event_stream {
	uint32_t number;
	struct event_page *page;
	int fd;	       /* -1: closed, and asked after */
	uint64_t lock; /* its byte of the data file */
	bool known;    /* as a page */
	struct slot *slots;
	uint32_t next_index; /* what the kernel will give to the next event, if nobody else registers on it */
	uint32_t settled;    /* next_index when nothing was under way */
	uint32_t fresh;	     /* indexes that have been given since then to events of ours */
	unsigned under_way;  /* placements on it */
	bool stranger;	     /* another program has registered on it */
	/* The name of an event that only this file has, where it lingers unguarded; "": none. */
	char witness[WITNESS_SIZE];
	UT_hash_handle by_number;
	TAILQ_ENTRY(event_stream) in_disowned;
};

enum { AT_ONCE = 100 }; /* what the processes of enablers are asked in one go */

/* New holdings with enablers in one process, registered on one stream; or on none, where the stream has them (ADOPT). */
struct placement {
	struct job *job;
	struct event_stream *stream;
	struct page_map *map;
	int file;   /* a data file of our own in the stream's place, or -1 */
	bool again; /* who was asked first has died */
	size_t n;
	struct slot *slots[AT_ONCE];
	struct kernel_call *calls[AT_ONCE];
	int results[AT_ONCE];
	TAILQ_ENTRY(placement) entry;
};

struct user_events_abi {
	/* Makes a page's files. */
	int (*page_new)(struct user_events *, struct event_page *);
	/*
	 * Takes a place for a new holding: a bit, or the one that it says already, and room for its enabler. An answer. NULL:
	 * it has one anyway.
	 */
	int (*take_place)(struct user_events *, struct event_page *, struct holding *);
	/* What was refused does not need it. */
	void (*give_place)(struct user_events *, struct holding *);
	/*
	 * Registers new holdings: a result for each, the slots' indexes, and the holdings' bits where the kernel says them.
	 * With that, now or later, the placement is put to those that are answered.
	 */
	void (*place)(struct user_events *, struct placement *);
	/* The last word on the results, before they are answers. NULL: they are. */
	void (*settle)(struct user_events *, struct placement *);
	/* Until some placement may have been answered. NULL: none is ever under way. */
	void (*wait)(struct user_events *);
	/* Registers what the page has already on one stream more. */
	int (*join)(struct user_events *, struct event_stream *, const struct holding *, uint32_t *ret_index);
	/* Registers an event on a file, and nothing else. 0 or a negative errno. */
	int (*witness)(int file, const char *name, uint32_t *ret_index);
	/* It is asked after no more, and may still be there. NULL: it goes by itself. */
	void (*forget_witness)(struct user_events *, const char *name);
	/* The last slot of each has gone; at most AT_ONCE. */
	void (*remove)(struct user_events *, struct holding *const *, size_t n);
	/* How many events the kernel takes, whoever makes them. */
	uint32_t (*maximum)(const struct user_events *);
	/* The daemon has taken over all that it goes on with. NULL: there is nothing to do. */
	void (*disowned)(struct user_events *);
	/* Nobody waits: time for what may be needed next. NULL: nothing. */
	void (*prepare)(struct user_events *);
	/* Its fd can be read. 0, or a negative errno. */
	int (*dispatch)(struct user_events *);
	/* All of that has gone. */
	void (*deinit)(struct user_events *);
};

struct user_events {
	struct kernel kernel; /* its fd: an epoll with the enablers' sockets */
	const struct user_events_abi *abi;
	struct mounts mounts;
	struct page_files files;
	int data; /* a data file of our own, on which nothing is registered */
	int list; /* the kernel's, of all events; or why it can't be read */
	struct places places;
	uint32_t witnesses; /* events */
	uint32_t next_page; /* id */
	struct event_page *pages;
	struct event_stream *streams;
	struct stream_queue disowned; /* who was looked at last is the last */
	int disowned_timer;	      /* while there are such */
	struct event_page shared;     /* status page: all holdings are here */
	int status;		      /* status page: what clients get */
	int timer;		      /* enable address: for spare processes; status page: while there are such: */
	struct unwanted_list unwanted;
	struct left_behind left_behind; /* status page */
	bool ending;			/* programs keep what they have */
	struct enabler_list enablers;
	bool timer_runs;
	unsigned under_way;		 /* placements that are not finished */
	struct placement_queue answered; /* those of them that have results */
};

/* user_events.c: takes the mounts over. 0, or a negative errno. */
int user_events_new(enum wire_backend, const struct mounts *, const struct kernel_limits *, struct kernel **ret);
struct event_page *user_events_find_page(const struct user_events *, uint32_t number);
struct event_stream *user_events_find_stream(const struct user_events *, uint32_t number);
/* Not among the others yet. NULL: no memory. */
struct event_page *user_events_page_make(struct user_events *, uint32_t number);
/* Frees one that never was. Returns the error. */
int user_events_page_unmake(struct user_events *, struct event_page *, int error);
/* 0, or -ENOMEM, and it is freed. */
int user_events_page_add(struct user_events *, struct event_page *);
/* As soon as the last of its streams, all of them disowned, is; it has no number any more. */
void user_events_page_free(struct user_events *, struct event_page *);
/* NULL: no memory. */
struct event_stream *user_events_stream_add(struct user_events *, uint32_t number, struct event_page *, uint64_t lock);
void user_events_stream_free(struct user_events *, struct event_stream *);
void user_events_disowned_free(struct user_events *, struct event_stream *);
/* What became of a placement's slot. */
void user_events_placed(struct event_stream *, struct slot *, struct kernel_call *);
void user_events_not_placed(struct user_events *, struct event_stream *, struct slot *);
/* An answer for what the kernel says to REG. */
int user_events_answer(int error);

/* enable_address.c, status_page.c: fill in what is theirs. 0 or a negative errno. */
int enable_address_init(struct user_events *, const struct kernel_limits *);
int status_page_init(struct user_events *, const struct kernel_limits *);

/* enablers.c: the processes that hold enablers. */
/* Where the page has room for one more enabler, with a process that maps it. It counts once something is added. */
int enablers_find_room(struct user_events *, struct event_page *, struct page_map **ret);
void enablers_add(struct page_map *, struct holding *);
/* Has processes ready for the next pages and events: to start one takes longer than to fill it. 0 or a negative errno. */
int enablers_init(struct user_events *);
/* Nobody waits: sees to it that there are again some, soon. */
void enablers_prepare(struct user_events *);
/* Forgets a map to which nothing was added after all. */
void enablers_tidy(struct user_events *, struct page_map *);
/* Has the placement's process register it. */
void enablers_register(struct user_events *, struct placement *);
/* Lets the kernel clear the bits of holdings that have enablers. */
void enablers_clear(struct user_events *, struct holding *const *, size_t n);
/* Forgets the holding. */
void enablers_remove(struct user_events *, struct holding *);
/* Takes answers. Replaces those that died, and registers again what they held. A negative errno where that is not possible. */
int enablers_dispatch(struct user_events *);
/* The same, and before it waits for something to come; who takes too long is replaced. */
void enablers_wait(struct user_events *);
void enablers_free(struct user_events *);
