/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Shared by the programs that admit events of programs which register by themselves ("native" ones), their loader, and the
 * daemon, which writes into their maps what each tenant may have. admission.bpf.c explains.
 *
 * A number counts in two halves: `limit` is written by the daemon alone, `used` by the kernel alone, and each writes its
 * own half before it reads the other one. So of two that want the last place at the same moment one is refused, or both are, but
 * never none.
 */

/* The version of the maps' layout: as GUARD_LAYOUT. */
#define ADMISSION_LAYOUT  "1"
#define ADMISSION_MAP	  "native" ADMISSION_LAYOUT "-"
#define ADMISSION_PROGRAM "admitting" ADMISSION_LAYOUT "-"

enum {
	/* Powers of two. */
	ADMISSION_NODES = 16384,
	ADMISSION_TENANTS = 8192,
	ADMISSION_STATES = 16384,
	ADMISSION_NOTES = 1 << 18, /* bytes */
	ADMISSION_PROBES = 16,	   /* entries behind the one that a tenant's number leads to, in which it may be */
	ADMISSION_FILES = 65536,
	ADMISSION_GRANTS = 65536,
	ADMISSION_RESERVES = 4,	   /* of a tenant */
	ADMISSION_PROOF_NODES = 3, /* the last nodes, and states, are for the daemon's trial of these programs */
	ADMISSION_PROOF_STATES = 32,
	ADMISSION_DEPTH = 28,	  /* nodes from a tenant up to the root */
	ADMISSION_CLASSES = 64,	  /* of characters */
	ADMISSION_END = 64,	  /* the class of NUL and blank, which end a name */
	ADMISSION_TEXT = 512,	  /* the longest description that the kernel takes, with its NUL */
	ADMISSION_NAME_MAX = 200, /* as DESCRIPTION_NAME_MAX */
	ADMISSION_NAME = 256,	  /* bytes of a name in a note */
	ADMISSION_PATH = 496,
};

/* Where charges count: a quota of the daemon's, a reserve, a fair share, or the machine's pool. Number 0 is none. */
struct admission_node {
	unsigned int limit;
	unsigned int used;
	unsigned int parent; /* is charged as well */
	unsigned int taken;  /* by the daemon; the others are free */
	char path[ADMISSION_PATH];
};

/*
 * The daemon adds 1 to `turn` before it writes the rest of an entry, and again behind that: if the kernel finds an odd number, or another
 * number afterwards, what it has read is of no use. An entry is in one of the ADMISSION_PROBES places from admission_hash() on.
 */
struct admission_tenant {
	unsigned long long
		cgroup; /* its number; 0: free; ADMISSION_GONE: free, and those behind it have to be looked at, too */
	unsigned int turn;
	unsigned int flags;
	unsigned int quota;			   /* a node; 0: it may register nothing */
	unsigned int share;			   /* a node: of the machine's pool */
	unsigned int pool;			   /* the node that the pool is */
	unsigned int rules;			   /* the state in which a name begins */
	unsigned int reserves[ADMISSION_RESERVES]; /* nodes */
};

#define ADMISSION_GONE (~0ULL)

static inline unsigned int admission_hash(unsigned long long cgroup)
{
	return (unsigned int)(cgroup * 0x9E3779B97F4A7C15ULL >> 32) & (ADMISSION_TENANTS - 1);
}

enum {
	ADMISSION_MULTI_FORMAT = 1, /* the tenant may use it */
	ADMISSION_DEFAULT = 4,	    /* a cgroup further inside may be a tenant of its own */
	ADMISSION_KILL = 2,	    /* a process that joins an event which its tenant may not have is killed */
};

/*
 * A state of the automaton that reads names: where it goes from here with each class of characters, and what holds for a name that ends
 * here. State 0 is where every name is refused.
 */
struct admission_state {
	unsigned short next[ADMISSION_CLASSES];
	unsigned int verdict; /* enum admission_verdict */
	unsigned int pad;     /* elements of an array begin at multiples of eight bytes */
};

/* Memory of the kernel and the daemon. */
struct admission_shared {
	unsigned long long inode; /* of user_events_data: the loader writes it */
	unsigned long long
		prover; /* the process of the daemon while it tries these programs, as the last tenant; 0: none */
	unsigned char classes[256]; /* of characters */
	struct admission_tenant tenants[ADMISSION_TENANTS + 1];
	struct admission_state states[ADMISSION_STATES];
	struct admission_node nodes[ADMISSION_NODES];
};

enum admission_verdict {
	ADMISSION_ALLOWED,
	ADMISSION_NAME_DENIED,	 /* DenyEvents= */
	ADMISSION_NAME_OWNED,	 /* OwnNames= of others */
	ADMISSION_NAME_UNLISTED, /* AllowEvents= */
	ADMISSION_NAME_PREFIX,	 /* NamePrefix= */
	ADMISSION_NAME_BAD,	 /* no name of an event */
	ADMISSION_QUOTA,
	ADMISSION_FLAGS,    /* PERSIST, or MULTI_FORMAT without permission */
	ADMISSION_COMMAND,  /* DEL, or no command of user_events */
	ADMISSION_STRANGER, /* no tenant */
	ADMISSION_FOREIGN,  /* another tenant registers on this file */
	ADMISSION_FULL,	    /* a map is */
	ADMISSION_VERDICTS,
};

/* One event of a tenant. */
struct admission_key {
	unsigned long long tenant; /* the number of its cgroup */
	unsigned long long event;  /* the kernel's address of it */
};

/* The nodes in which it is counted. */
struct admission_charge {
	unsigned int quota;
	unsigned int reserve; /* 0: the share and the pool */
	unsigned int share;
	unsigned int pool;
};

struct admission_grant {
	unsigned int
		files; /* open ones with a reference; 0: it lingers, perhaps held by memory that the kernel enables */
	unsigned int pid; /* of the process that registered it last */
	unsigned int uid;
	unsigned int violation; /* enum admission_verdict */
	struct admission_charge charge;
	unsigned int swept; /* the sweep that has seen it in use */
	unsigned int pad;
	unsigned long long since; /* it lingers, in nanoseconds of the boot clock */
	char comm[16];
	char text[ADMISSION_TEXT];
};

/* An entry of the list of grants. */
struct admission_listed {
	struct admission_key key;
	struct admission_grant grant;
};

/* A file, by the kernel's address. */
struct admission_file {
	unsigned long long tenant;
	unsigned int references; /* that grants count */
	unsigned int pad;
};

/* A message to the daemon. */
struct admission_note {
	unsigned long long tenant;
	unsigned int what; /* enum admission_news */
	unsigned int verdict;
	unsigned int pid;
	unsigned int uid;
	char comm[16];
	char name[ADMISSION_NAME];
};

enum admission_news {
	ADMISSION_GRANTED,
	ADMISSION_REFUSED,
	ADMISSION_VIOLATED, /* it has joined an event that it may not have */
	ADMISSION_LINGERS,  /* a sweep may find that nobody holds it any more; not told again before the next sweep */
};
