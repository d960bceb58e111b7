/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The wire: SOCK_SEQPACKET, one packet = one message = its fds. Everything is little-endian and laid out by hand, the same for 32 and 64
 * bits. The specification is userevd-protocol.7.
 */

#include <endian.h>
#include <stdint.h>

#include "protocol/base/base.h"

enum {
	WIRE_PACKET_MAX = 131072,   /* 1,000 of the longest descriptions, asked and answered, in ten packets */
	WIRE_BATCH_MAX = 512,	    /* 512 refusals with their sentences fit in one packet */
	WIRE_DESCRIPTION_MAX = 511, /* the kernel's 512, less its NUL */
	WIRE_SENTENCE_MAX = 224,    /* a refusal is a sentence, not an essay */
	WIRE_TENANT_MAX = 4095,	    /* a cgroup's path */
	WIRE_FDS_MAX = 8,	    /* in one reply: a page and streams; clients send none */
	WIRE_PAGE_BYTES = 4096,	    /* the status page; little-endian bits, bit 0 is never used */
	WIRE_PAGE_BITS = WIRE_PAGE_BYTES * 8,
	/*
	 * In the page's file, behind the page: a bit per event that a trace of the tenant's own has, and then a byte per event, of which only
	 * those with such a bit may be read: a bit per trace, and perhaps WIRE_TRACED_ONLY.
	 */
	WIRE_TRACED_AT = WIRE_PAGE_BYTES,
	WIRE_TRACES_AT = 2 * WIRE_PAGE_BYTES,
	WIRE_PAGE_FILE_BYTES = WIRE_TRACES_AT + WIRE_PAGE_BITS,
	WIRE_TRACES_MAX = 4,	 /* of a tenant at a time */
	WIRE_TRACED_ONLY = 0x80, /* the tracers of the machine don't want the event from this tenant */
	WIRE_PAYLOAD_MAX = 4064, /* the most that ftrace delivers with 4 KiB pages */
};

enum wire_kind {
	/* clients: /run/userevd.sock */
	KIND_HELLO = 1,
	KIND_WELCOME = 2, /* fds: the status page, read-only */
	KIND_REGISTER = 3,
	KIND_REGISTERED = 4,
	KIND_RELEASE = 5,
	KIND_RELEASED = 6,
	KIND_QUERY = 7,
	KIND_ACCOUNT = 8,
	KIND_WATCH = 9,
	KIND_WATCHING = 10,
	KIND_CHANGED = 11,     /* unasked, serial 0 */
	KIND_LOST = 12,	       /* has no answer */
	KIND_ERROR = 13,       /* the last packet of a connection */
	KIND_TRACE_OWN = 14,   /* strings: patterns of events of this tenant */
	KIND_TRACING_OWN = 15, /* fd: a socket to read their records from, while the connection lives */
	KIND_TRACED = 16,      /* unasked, serial 0; fd: the socket for records of one of the tenant's traces */
	KIND_NATIVE = 17,
	KIND_NATIVE_FILE = 18, /* fd: the kernel's user_events_data, for a program that registers by itself */

	/* admins: /run/userevd/control.sock */
	KIND_STATUS = 128,
	KIND_EVENTS = 129,
	KIND_TENANTS = 130,
	KIND_TRACE = 131, /* switch events on or off */
	KIND_TAIL = 132,  /* rows for as long as the connection lives */
	KIND_SYNC = 133,  /* answered when all records written before it have been read and shown */
	KIND_SYNCED = 134,
	KIND_ROWS = 135,
	KIND_REFUSED = 136,
	KIND_RELOAD = 137,   /* read the policy files again; answered when that is done */
	KIND_METRICS = 138,  /* rows of text */
	KIND_EXPLAIN = 139,  /* strings: a cgroup, a description: how this request would be decided */
	KIND_DELETE = 140,   /* a string: the name of an event that is to be deleted in the kernel */
	KIND_SILENCE = 141,  /* strings: keeps events off for some tenants, or ends that */
	KIND_SILENCES = 142, /* a row for each rule of SILENCE */
};

/* Feature bits of HELLO and WELCOME. */
#define WIRE_FEATURE_WATCH	  (UINT64_C(1) << 0) /* WATCH and CHANGED */
#define WIRE_FEATURE_PERSIST	  (UINT64_C(1) << 1) /* REGISTER_PERSIST */
#define WIRE_FEATURE_MULTI_FORMAT (UINT64_C(1) << 2) /* REGISTER_MULTI_FORMAT */
#define WIRE_FEATURE_MUTED	  (UINT64_C(1) << 3) /* of WELCOME: an admin has muted this tenant */
#define WIRE_FEATURE_OWN_TRACES	  (UINT64_C(1) << 4) /* of HELLO: TRACED; of WELCOME: TRACE_OWN is allowed */
#define WIRE_FEATURE_NATIVE	  (UINT64_C(1) << 5) /* of WELCOME: NATIVE is allowed */

/* Flags of one item of REGISTER, with the kernel's values. */
enum { REGISTER_PERSIST = 1 << 0, REGISTER_MULTI_FORMAT = 1 << 1 };

/* Flags of TRACE and TAIL. */
enum { TRACE_ON = 1 << 0, TRACE_DONE = 1 << 1, TAIL_PAST = 1 << 0, TAIL_NO_FOLLOW = 1 << 1 };

/*
 * Flags of SILENCE: what is done for each tenant, or with events for none but these tenants (ONLY; WHILE: until the connection ends), or for
 * all (ALL). An item is a pattern of cgroups' paths, unless it has a flag: the name of an event, or the cgroup of a process.
 */
enum silence_asked { ASK_MUTE = 1, ASK_UNMUTE, ASK_BLOCK, ASK_UNBLOCK, ASK_ONLY, ASK_ALL, ASK_WHILE };
enum { SILENCE_OF_EVENT = 1 << 0, SILENCE_OF_PROCESS = 1 << 1 };

/* Flag of a header: more packets of this answer follow. */
enum { WIRE_MORE = 1 << 0 };

enum wire_backend { BACKEND_EMBEDDED = 1, BACKEND_STATUS_PAGE = 2, BACKEND_ENABLE_ADDRESS = 3 };

/* Behind the header come `streams` numbers of 32 bits, one for each stream fd attached, in the order of the fds. */
struct wire_header {
	uint32_t size; /* of the whole packet */
	uint16_t kind;
	uint8_t flags;
	uint8_t streams;
	uint32_t serial; /* the client's choice; the answer repeats it */
	uint32_t zero;
};
_Static_assert(sizeof(struct wire_header) == 16, "header");

struct wire_hello {
	uint64_t understands;
	uint64_t needs; /* refused unless the daemon has all of these */
};
_Static_assert(sizeof(struct wire_hello) == 16, "hello");

struct wire_welcome {
	uint64_t features;
	uint32_t page_bytes;
	uint32_t page_bits;
	uint32_t payload_max;
	uint32_t packet_max;
	uint32_t batch_max;
	uint32_t events_max; /* of the tenant */
	uint16_t backend;
	uint16_t tenant_length; /* that many bytes follow */
	uint32_t zero;
};
_Static_assert(sizeof(struct wire_welcome) == 40, "welcome");

/*
 * The head of a list: REGISTER, TRACE, TAIL of strings, REGISTERED of answers, RELEASE of status bits of 32 bits, ROWS of rows
 * (protocol/row.h), each behind its length.
 */
struct wire_strings {
	uint16_t count;
	uint16_t flags; /* of TRACE, TAIL and EXPLAIN; otherwise zero */
};
_Static_assert(sizeof(struct wire_strings) == 4, "strings");

struct wire_string {
	uint16_t flags;
	uint16_t length; /* bytes follow, then zeros to a multiple of four */
};
_Static_assert(sizeof(struct wire_string) == 4, "string");

struct wire_answer {
	uint16_t refusal; /* 0: granted */
	uint16_t
		length; /* of the text that follows: the sentence, or the full name if it differs from the requested one */
	uint32_t bit; /* in the status page */
	uint32_t stream;
	uint32_t index; /* of writes to that stream: the first four bytes of each record, in the machine's own order */
};
_Static_assert(sizeof(struct wire_answer) == 16, "answer");

struct wire_released {
	uint16_t released;
	uint16_t not_held;
};
_Static_assert(sizeof(struct wire_released) == 4, "released");

struct wire_account {
	uint32_t events; /* charged to the tenant, lingering ones included */
	uint32_t events_max;
	uint32_t lingering;
	uint32_t leases; /* of this connection */
	uint32_t connections;
	uint32_t zero;
	uint64_t lost;	  /* records that this tenant's programs reported as lost */
	uint64_t records; /* that the embedded backend took */
	uint64_t bad;	  /* records that it refused */
};
_Static_assert(sizeof(struct wire_account) == 48, "account");

struct wire_watch {
	uint32_t on;
};

/* Bits of the page that may have changed. No bits: all may have. */
struct wire_changed {
	uint32_t payload_max;
	uint16_t count; /* that many status bits of 16 bits follow */
	uint16_t zero;
};
_Static_assert(sizeof(struct wire_changed) == 8, "changed");

struct wire_traced {
	uint32_t trace; /* which of the tenant's: the bit of a byte behind the page */
};
_Static_assert(sizeof(struct wire_traced) == 4, "traced");

/*
 * A record in a trace of a tenant's own, in the machine's own order: behind it come the description as the program has it, and the payload.
 * The pid and the uid of the program come with it (SCM_CREDENTIALS).
 */
struct wire_own_record {
	uint64_t time; /* ns since 1970 */
	uint32_t lost; /* records of this program, since the last that is in this trace */
	uint32_t description_length;
};
_Static_assert(sizeof(struct wire_own_record) == 16, "own record");

/* Since the last such report. */
struct wire_lost {
	uint64_t queue_full;
	uint64_t too_big;
};
_Static_assert(sizeof(struct wire_lost) == 16, "lost");

/* ERROR and REFUSED. */
struct wire_error {
	uint16_t refusal;
	uint16_t length; /* of the sentence that follows */
};
_Static_assert(sizeof(struct wire_error) == 4, "error");
