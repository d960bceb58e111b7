/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The parts of userevd-guard. Below its directory, which is in a BPF file system, stand
 *	mounts1			the map of the guarded mounts, of layout 1
 *	program1-HASH/		the programs of layout 1 of one build, all of them: it gets that name when it is complete
 *		file_ioctl …	what attaches the program of that hook, and beside it
 *		file_ioctl-program
 *		processes	reading it lists the machine's processes
 *	new/			while they are being pinned
 */

#include <limits.h>
#include <sys/types.h>

#include "kernel/guard/guard.h"
#include "protocol/base/text.h"

enum { GUARD_SENTENCE_BYTES = 256 };

/* Locked for as long as it is open. */
struct guard_directory {
	int fd;
	char path[PATH_MAX - 128]; /* so that what stands below it has a path, too */
};

struct guard_pin {
	char path[PATH_MAX];
};

/* guard_directory.c */

/* A BPF file system for the directory, if that has the usual place and there is none. Needs CAP_SYS_ADMIN. */
void guard_mount_bpffs(const char *path);
/*
 * Waits until nobody else has it locked. With `make` it is made; else 0 and an fd of -1 where there is none. A negative errno
 * comes with a sentence.
 */
int guard_directory_open(const char *path, bool make, struct guard_directory *ret, struct text *why);
void guard_directory_close(struct guard_directory *);
struct guard_pin guard_pin(const struct guard_directory *, const char *format, ...) _printf_(2, 3);
/* Calls for each name in the directory, until one call is not 0; returns that. */
typedef int guard_visitor(const struct guard_directory *, const char *name, void *data);
int guard_directory_visit(const struct guard_directory *directory, guard_visitor *visit, void *data);
/* Takes a directory with everything in it away, or a file. */
int guard_unpin(const struct guard_directory *, const char *name);
/* Takes everything away, and the directory. */
int guard_directory_remove(struct guard_directory *);

/* guard_machine.c: what this machine lacks, as a sentence. 0 or a negative errno. */

int guard_machine_has_bpf(struct text *why);
/* Whether a task may be interrupted by another one in the middle of what the kernel does for it. */
bool guard_machine_is_preemptible(void);
void guard_machine_say_why_refused(int error, struct text *why);
/* Gives up every capability that is not needed, where that is allowed. */
void guard_machine_drop_privileges(void);

/* guard_program.c */

enum { GUARD_HOOKS = 5, GUARD_HOOKS_NEEDED = 2 /* the first ones */ };
extern const char *const guard_hooks[GUARD_HOOKS];

enum guard_kind { GUARD_KIND_LSM, GUARD_KIND_MODIFY_RETURN };

struct guard_program {
	enum guard_kind kind;
	bool hooks[GUARD_HOOKS];
	uint64_t missed; /* how often a hook let something pass since it was interrupted */
};

struct guard_program_name {
	char text[32];
};

/* As this build's would be pinned. */
struct guard_program_name guard_program_name(void);
bool guard_program_is_name(const char *);
/* 0: all that is needed is pinned there, attached, and looks into the pinned map; or a negative errno. */
int guard_program_inspect(const struct guard_directory *, const char *name, struct guard_program *ret);
/* Loads and pins this build's programs unless they are there, and takes those of other builds away. */
int guard_program_ensure(const struct guard_directory *, struct text *why);
void guard_program_log(bool verbose);

/* guard_mounts.c */

struct guard_pin guard_map(const struct guard_directory *);
/* The pinned map, or a negative errno. */
int guard_map_open(const struct guard_directory *);
/*
 * Gives a keeper that is a cgroup the mounts of those whose cgroup is no more: files that were opened through them may be his
 * to go on with. Where not all cgroups can be seen, none.
 */
void guard_mounts_inherit(const struct guard_directory *, const struct guard_keeper *heir);
int guard_mounts_add(const struct guard_directory *, uint64_t mount, const struct guard_keeper *, struct text *why);
int guard_mounts_remove(const struct guard_directory *, uint64_t mount, struct text *why);
typedef void guard_mount_visitor(uint64_t mount, const struct guard_keeper *, void *data);
int guard_mounts_visit(const struct guard_directory *directory, guard_mount_visitor *visit, void *data);

/* guard_keeper.c: who it is. */

struct guard_process {
	pid_t number; /* for us */
	uint32_t tgid;
	uint64_t start;
};

struct guard_processes {
	struct guard_process *list;
	size_t n;
};

/* All that there are now. `program`: the name of a whole one. To be freed whatever it returns. */
int guard_processes_read(const struct guard_directory *, const char *program, struct guard_processes *ret);
void guard_processes_free(struct guard_processes *);
/* Fills in the process with this number. 0 or a negative errno with a sentence. */
int guard_keeper_find_process(const struct guard_directory *, const char *program, pid_t, struct guard_keeper *ret,
			      struct text *why);
/* The number that the keeper's process has for us; 0: it is no more. */
pid_t guard_keeper_process(const struct guard_keeper *, const struct guard_processes *);
/* Fills in the cgroup with this id, or at this path. */
int guard_keeper_set_cgroup(uint64_t id, struct guard_keeper *ret, struct text *why);
int guard_keeper_find_cgroup(const char *path, struct guard_keeper *ret, struct text *why);
/* Calls for each cgroup of the machine. 0, or a negative errno: there may be others. */
typedef void guard_cgroup_visitor(uint64_t id, void *data);
int guard_cgroups_visit(guard_cgroup_visitor *visit, void *data);

/* guard_status.c: prints it. 0 or a negative errno with a sentence. */
int guard_status(const char *path, bool json, struct text *why);
