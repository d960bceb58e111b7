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
#include "protocol/table.h"

struct event_page;
struct event_stream;
struct holding;
struct user_events;

LIST_HEAD(holding_list, holding);
LIST_HEAD(page_map_list, page_map);
LIST_HEAD(enabler_list, enabler_process);
SLIST_HEAD(unwanted_list, unwanted);

/* Directories of the keeper's own; see mounts.c. */
struct mounts {
	int tracefs;
	int pages;	     /* writable: -1 where the kernel has a page of its own */
	int pages_read_only; /* the same files */
	uint64_t tracefs_id; /* of the mount; what the guard compares */
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
	uint32_t enablers;
	uint32_t maps;
	struct page_map_list mapped;
	struct holding_list holdings;
	LIST_ENTRY(enabler_process) entry;
};

struct event_page {
	uint32_t number;
	uint32_t streams;
	int fd; /* writable */
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
	struct page_map *map; /* where its enabler is; NULL: none */
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

struct event_stream {
	uint32_t number;
	struct event_page *page;
	int fd; /* -1: closed, and asked after */
	struct slot *slots;
	uint32_t next_index; /* what the kernel will give to the next event, if nobody else registers on it */
	UT_hash_handle by_number;
};

struct user_events_abi {
	/* Makes what there is to a page; the fd for clients. */
	int (*page_new)(struct user_events *, struct event_page *, int *ret_fd);
	void (*page_free)(struct user_events *, struct event_page *);
	/*
	 * Registers new holdings of one page on one stream, at most REGISTER_AT_ONCE: fills the slots' indexes, the
	 * holdings' bits where the kernel says them, and a result for each.
	 */
	void (*place)(struct user_events *, struct event_stream *, struct slot *const *, size_t n, int *results);
	/* Registers what the page has already on one stream more. */
	int (*join)(struct user_events *, struct event_stream *, const struct holding *, uint32_t *ret_index);
	/* The last slot has gone. */
	void (*remove)(struct user_events *, struct holding *);
	/* Nobody waits: time for what may be needed next. NULL: nothing. */
	void (*prepare)(struct user_events *);
	/* Its fd can be read. 0, or a negative errno. */
	int (*dispatch)(struct user_events *);
	/* All of that has gone. */
	void (*deinit)(struct user_events *);
};

enum { REGISTER_AT_ONCE = 64 };

struct user_events {
	struct kernel kernel; /* its fd: an epoll with the enablers' sockets */
	const struct user_events_abi *abi;
	struct mounts mounts;
	int data;	    /* a data file of our own, on which nothing is registered */
	uint64_t lock_base; /* where this keeper's locks begin */
	struct event_page *pages;
	struct event_stream *streams;
	struct event_page shared; /* status page: all holdings are here */
	int status;		  /* status page: what clients get */
	int timer;		  /* status page: while there are such: */
	struct unwanted_list unwanted;
	struct enabler_list enablers;
	bool settling; /* enable address: something was let go of, and may not be gone yet */
};

/* user_events.c: takes the mounts over. 0, or a negative errno. */
int user_events_new(enum wire_backend, const struct mounts *, const struct kernel_limits *, struct kernel **ret);
/* An answer for what the kernel says to REG. */
int user_events_answer(int error);

/* enable_address.c, status_page.c: fill in what is theirs. 0 or a negative errno. */
int enable_address_init(struct user_events *, const struct kernel_limits *);
int status_page_init(struct user_events *, const struct kernel_limits *);

/* page_file.c: a page read-only for whoever gets `ret_client`, whatever he is. */
int page_file_new(const struct mounts *, int *ret_fd, int *ret_client);

/* enablers.c: the processes that hold enablers. */
/* Where the page has room for one more enabler, with a process that maps it. It counts once something is added. */
int enablers_find_room(struct user_events *, struct event_page *, struct page_map **ret);
void enablers_add(struct page_map *, struct holding *);
/* Has a process ready for the next page or the next few hundred events: to start one takes longer than all that it does. */
void enablers_prepare(struct user_events *);
/* How many more enablers it has room for. */
uint32_t enablers_room(const struct page_map *);
/* Forgets a map to which nothing was added after all. */
void enablers_tidy(struct user_events *, struct page_map *);
/* Registers the slots' holdings, which are all on `map`; a result for each. */
void enablers_register(struct user_events *, struct page_map *map, int stream, struct slot *const *, size_t n,
		       int *results);
/* Forgets the holding; with `clear`, after its bit has been cleared by the kernel. */
void enablers_remove(struct user_events *, struct holding *, bool clear);
/* Replaces those that died, and registers again what they held. A negative errno where that is not possible. */
int enablers_dispatch(struct user_events *);
void enablers_free(struct user_events *);
