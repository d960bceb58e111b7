/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The parts of userevd-guard. Its directory is in a BPF file system, and has these entries:
 *	mounts2			the map of the guarded mounts, of layout 2
 *	admission2-KIND		an array for the program that file_ioctl goes on to; see admission.c
 *	native1-NAME		the maps of admission.bpf.c
 *	admitting1-HASH/	its links, and the program of a sweep
 *	program2-HASH/		all programs of layout 2 of one build: the directory gets this name when it is complete
 *		file_ioctl …	the link that attaches the program of this hook, and beside it
 *		file_ioctl-program
 *	new/			a directory of programs while they are being pinned
 */

#include "kernel/guard/guard.h"
#include "protocol/base/text.h"

enum { GUARD_SENTENCE_BYTES = 256 };

#define GUARD_MAP	"mounts" GUARD_LAYOUT
#define GUARD_ADMISSION "admission" GUARD_LAYOUT "-" /* and lsm or modify */
#define GUARD_PROGRAM	"program" GUARD_LAYOUT "-"

/* --- directory.c: the guard's directory becomes the current one, so names of its entries are paths --- */

/* Mounts a BPF file system if the directory lies in the usual place and none is mounted there. Needs CAP_SYS_ADMIN. */
void guard_mount_bpffs(const char *path);
/*
 * Opens and enters the directory as soon as no other process has it locked; it is locked for as long as it is open. A missing directory
 * is made with `make`, and is an fd of -1 without. A negative errno comes with a sentence.
 */
int guard_directory_open(const char *path, bool make, int *ret, struct text *why);
/* Calls `visit` for each entry until a call returns something else than 0, and returns that. */
int guard_directory_visit(int (*visit)(const char *name, void *data), void *data);
/* Removes this entry, or the whole directory by its path, with everything in it. */
int guard_unpin(const char *name);

/* --- machine.c: puts into `why` what this machine lacks; 0 or a negative errno --- */

int guard_machine_has_bpf(struct text *why);
/* Whether the kernel may switch tasks in the middle of a system call. */
bool guard_machine_is_preemptible(void);
void guard_machine_explain_refusal(int error, struct text *why);
/* Gives up every capability that is not needed, where that is allowed. */
void guard_machine_drop_privileges(void);

/* --- program.c --- */

enum { GUARD_HOOKS = 5, GUARD_HOOKS_NEEDED = 2 /* the first ones */ };
extern const char *const guard_hooks[GUARD_HOOKS];

enum guard_kind { GUARD_KIND_LSM, GUARD_KIND_MODIFY_RETURN };

struct guard_program {
	enum guard_kind kind;
	bool hooks[GUARD_HOOKS];
	uint64_t missed; /* how often a hook let a call pass because it was interrupted */
};

struct guard_program_name {
	char text[32];
};

/* The name under which this build's programs are pinned. */
struct guard_program_name guard_program_name(void);
bool guard_program_is_name(const char *);
/* 0 if all needed programs are pinned there, attached, and use the pinned map; otherwise a negative errno. */
int guard_program_inspect(const char *name, struct guard_program *ret);
/* Loads and pins this build's programs unless they are pinned, then removes those of other builds. */
int guard_program_ensure(struct text *why);
void guard_program_log(bool verbose);

/* With the version: for names of builds. */
uint64_t guard_program_hash(const void *bytes, size_t n);

/* --- admission.c --- */

/* As guard_program_ensure(), which comes first, for the programs that admit native events on the file with this inode number. */
int guard_admission_ensure(uint64_t inode, struct text *why);

/* --- mounts.c --- */

/* The pinned map, with its id unless that is NULL; or a negative errno. */
int guard_map_open(uint32_t *ret_id);
struct guard_mounts {
	struct guard_mount {
		uint64_t mount;
		uint64_t cgroup;
		bool alive; /* the cgroup exists */
	} * list;	    /* the caller frees it */
	size_t n;
};
int guard_mounts_read(struct guard_mounts *ret);
int guard_mounts_add(uint64_t mount, uint64_t cgroup, struct text *why);
/*
 * Moves mounts whose keeper's cgroup does not exist any more to this cgroup, which may go on with files that were opened through
 * them. If not all cgroups of the machine are visible, no mount is moved.
 */
void guard_mounts_inherit(uint64_t cgroup);
int guard_mounts_remove(uint64_t mount, struct text *why);

/* --- cgroup.c --- */

enum { GUARD_ROOT_CGROUP = 1 };
/* The number of the cgroup at this path. 0, or a negative errno with a sentence. */
int guard_cgroup_find(const char *path, uint64_t *ret, struct text *why);
/* Finds out which of the mounts' cgroups exist. 0, or a negative errno if there may be more. */
int guard_cgroups_look_up(struct guard_mounts *);

/* --- status.c: prints the status as JSON; 0 or a negative errno with a sentence --- */

int guard_status(const char *path, struct text *why);
