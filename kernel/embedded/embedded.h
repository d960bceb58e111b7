/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The insides of the embedded backend. A trace event is on the pages of the tenants that have it (a holding: one bit), and there on the
 * sources through which their programs write it (a slot: one index). A holding lives as long as its slots, an event as long as its
 * holdings or the admin's switch.
 */

#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "kernel/embedded/page.h"
#include "kernel/embedded/tracer.h"
#include "kernel/kernel.h"
#include "protocol/base/table.h"
#include "protocol/event/description.h"

enum {
	EMBEDDED_CAPACITY = 64900,     /* as many as a real kernel */
	EMBEDDED_RING_BYTES = 4 << 20, /* unless the limits say otherwise */
	EMBEDDED_DISPATCH_MAX = 512,   /* records per dispatch, so that the daemon gets to other work */
	EMBEDDED_TURN_MAX = 16,	       /* records of one source before the turn of the next source */
	EMBEDDED_PARSED_EVENTS = 64,   /* a parsed description takes 8 kB, and few events are recorded at a time */
	EMBEDDED_COMM_MAX = 16,	       /* the kernel's TASK_COMM_LEN */
};

/* A description ready for checking records. */
struct parsed_event {
	uint64_t id;
	struct description description;
};

struct embedded_page {
	uint32_t number;
	uint32_t sources;
	struct page page;
	struct kernel_page_stats stats;
	UT_hash_handle by_number;
	char tenant[];
};

struct holding_key {
	struct embedded_page *page;
	struct trace_event *event;
};

struct holding {
	struct holding_key of;
	uint32_t bit;
	uint32_t slots;
	uint16_t state; /* KERNEL_STATES */
	LIST_ENTRY(holding) in_event;
	UT_hash_handle by_key;
};

/* The daemon's end of a stream. */
struct source {
	uint32_t number;
	int fd; /* -1: no copy of the other end is open, and everything has been read */
	struct embedded_page *page;
	struct slot *slots; /* in the order of their indexes */
	size_t n_slots;
	uint32_t next_index;
	uint64_t batch; /* number of the batch with releases before which it was read last */
	UT_hash_handle by_number;
};

struct slot {
	struct holding *holding;
	uint32_t index;
};

enum { RECORD_INDEX_SIZE = sizeof(uint32_t), RECORD_MAX = RECORD_INDEX_SIZE + WIRE_PAYLOAD_MAX };

struct record {
	uint8_t data[RECORD_MAX];
	size_t size; /* as it was written, even where that is more than RECORD_MAX */
	struct ucred writer;
	uint64_t time; /* ns since 1970 */
};

struct writer_name {
	pid_t pid;
	char comm[EMBEDDED_COMM_MAX];
};

struct embedded {
	struct kernel kernel;
	struct tracer tracer;
	struct embedded_page *pages;
	struct source *sources;
	struct holding *holdings;
	int directory; /* of pages; or -1 */
	int read_only;
	struct page_files files;
	uint64_t batches;	   /* of calls */
	uint64_t drained;	   /* number of the batch with SILENCE before which all sources were read last */
	struct writer_name writer; /* of the last record; forgotten at each dispatch, since a pid may be used again */
};

/* The page and the source that a call names. */
struct target {
	struct embedded_page *page; /* or NULL */
	struct source *source;
};

/* --- event.c --- */

/* Each finds or makes: 0, an enum kernel_answer or -ENOMEM. The caller tidies what it does not use. */
int trace_event_get(struct embedded *, const struct description *, struct trace_event **ret);
int holding_get(struct embedded *, struct embedded_page *, struct trace_event *, uint16_t state, struct holding **ret);
int slot_get(struct source *, struct holding *, uint32_t *ret_index);
/* Valid until the source's next change; or NULL. */
struct slot *slot_find(const struct source *, uint32_t index);
/* Frees it unless something needs it, and then also the objects that only it needed. */
void trace_event_tidy(struct embedded *, struct trace_event *);
void holding_tidy(struct embedded *, struct holding *);
/* Whether its records are taken. */
bool holding_is_on(const struct holding *);
/* Brings its page up to date, and notes the change. */
void holding_show(struct embedded *, const struct holding *);
void holding_set_state(struct embedded *, struct holding *, uint16_t state);
void slot_free(struct embedded *, struct source *, struct slot *);

/* --- source.c --- */

/* Calls; they return answers. */
int source_new(struct embedded *, struct kernel_call *, const struct target *);
/* Reads what is still queued, and frees it with all slots. */
int source_free(struct embedded *, struct kernel_call *, const struct target *);
/* If no copy of the other end is open, everything has been read. */
int source_still_open(struct embedded *, struct kernel_call *, const struct target *);
/* Reads what is queued now. */
void source_drain(struct embedded *, struct source *);
int sources_dispatch(struct kernel *);

/* --- tracer.c --- */

int tracer_init(struct tracer *, size_t ring_bytes);
void tracer_deinit(struct tracer *);
/* Switches a new event on if a session wants it. */
void tracer_add(struct tracer *, struct trace_event *);
/* NULL only if a description could be parsed once and can't be again. */
const struct description *tracer_parsed(struct tracer *, const struct trace_event *);
/* Puts a record into the ring, if it fits. */
void tracer_keep(struct embedded *, const struct source *, const struct trace_event *, const struct record *);
