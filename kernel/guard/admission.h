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
#define ADMISSION_PROGRAM "admission" ADMISSION_LAYOUT "-"

enum {
	ADMISSION_NODES = 16384,
	ADMISSION_TENANTS = 4096,
	ADMISSION_STATES = 16384,
	ADMISSION_FILES = 65536,
	ADMISSION_GRANTS = 65536,
	ADMISSION_RESERVES = 4,	   /* of a tenant */
	ADMISSION_PROOF_NODES = 3, /* the last nodes, and states, are for the daemon's trial of these programs */
	ADMISSION_PROOF_STATES = 32,
	ADMISSION_DEPTH = 28,	  /* nodes from a tenant up to the root */
	ADMISSION_CLASSES = 64,	  /* of characters */
	ADMISSION_TEXT = 512,	  /* the longest description that the kernel takes, with its NUL */
	ADMISSION_NAME_MAX = 200, /* as DESCRIPTION_NAME_MAX */
	ADMISSION_NAME = 256,	  /* bytes of a name in a note */
	ADMISSION_PATH = 496,
};

struct admission_settings {
	unsigned long long inode;  /* of user_events_data: the loader writes it */
	unsigned long long prover; /* the process of the daemon while it tries these programs, as tenant 0; 0: none */
};

/* Where charges count: a quota of the daemon's, a reserve, a fair share, or the machine's pool. Number 0 is none. */
struct admission_node {
	unsigned int limit;
	unsigned int used;
	unsigned int parent; /* is charged as well */
	unsigned int taken;  /* by the daemon; the others are free */
	char path[ADMISSION_PATH];
};

/* By the number of its cgroup. Number 0 is the prover. */
struct admission_tenant {
	unsigned int quota;			   /* a node; 0: it may register nothing */
	unsigned int share;			   /* a node: of the machine's pool */
	unsigned int pool;			   /* the node that the pool is */
	unsigned int rules;			   /* the state in which a name begins */
	unsigned int reserves[ADMISSION_RESERVES]; /* nodes */
	unsigned int flags;
	unsigned int pad;
};

enum {
	ADMISSION_MULTI_FORMAT = 1, /* the tenant may use it */
	ADMISSION_DEFAULT = 4,	    /* a cgroup further inside may be a tenant of its own */
	ADMISSION_KILL = 2,	    /* a process that joins an event which its tenant may not have is killed */
};

/*
 * A state of the automaton that reads names: where it goes from here with each class of characters, and what holds for a name that ends
 * here. State 0 is where every name is refused. Characters: 0 to 9, A to Z, a to z, _, and all others.
 */
struct admission_state {
	unsigned short next[ADMISSION_CLASSES];
	unsigned int verdict; /* enum admission_verdict */
	unsigned int pad;     /* elements of an array begin at multiples of eight bytes */
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

struct admission_grant {
	unsigned int
		files; /* open files with a reference; 0: it lingers, perhaps held by memory that the kernel enables */
	unsigned int place;		 /* the node of the reserve that is filled; 0: the pool */
	struct admission_tenant charged; /* as it was then */
	unsigned int pid;		 /* of the process that registered it last */
	unsigned int uid;
	unsigned int violation;	  /* enum admission_verdict */
	unsigned int swept;	  /* the sweep that has seen it in use */
	unsigned long long since; /* it lingers, in nanoseconds of the boot clock */
	char comm[16];
	char text[ADMISSION_TEXT];
};

/* A file, by the kernel's address. */
struct admission_file {
	unsigned long long tenant;
	unsigned int references; /* that grants count */
	unsigned int pad;
};

/* What happened, for the daemon. */
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
	ADMISSION_LINGERS,  /* a sweep may find that nobody holds it any more */
	ADMISSION_ENDED,
};
