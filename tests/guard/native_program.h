/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A program that speaks user_events by itself, as uid 1000 in a cgroup of its own, and carries out the orders of a test. */

#include <stdint.h>
#include <sys/types.h>

/* Where programs open it. */
extern const char *native_file;

struct native_program {
	pid_t pid;
	int socket;
};

/* Mounts the file by itself, as containers have it, for everybody; returns the number of its inode. */
uint64_t native_mount(void);
void native_unmount(void);
uint64_t native_cgroup(const char *cgroup);

void native_start(struct native_program *, const char *cgroup);
enum native_user { NATIVE_USER, NATIVE_ROOT, NATIVE_ROOT_OF_NAMESPACE };
void native_start_as(struct native_program *, const char *cgroup, enum native_user);
/* Kills it, and waits. */
void native_end(struct native_program *);

/* Each returns 0 or the errno that the program got. A file has a place from 0 to 7, an enabled word one from 0 to 65535. */
int native_open(struct native_program *, unsigned file);
int native_close(struct native_program *, unsigned file);
int native_register(struct native_program *, unsigned file, unsigned word, const char *description, unsigned flags);
/* The description lies in memory that is not there yet. */
int native_register_absent(struct native_program *, unsigned file, unsigned word, const char *description);
int native_register_at(struct native_program *, unsigned file, uint64_t enable_address, uint64_t description);
/* At the first n words. */
int native_register_often(struct native_program *, unsigned file, unsigned n, const char *description);
/* As a 32-bit program, and by io_uring. */
int native_register_32(struct native_program *, unsigned file, const char *description);
int native_register_by_ring(struct native_program *, unsigned file);
int native_unregister(struct native_program *, unsigned word);
int native_delete(struct native_program *, unsigned file, const char *name);
int native_lock(struct native_program *, unsigned file);
int native_chmod(struct native_program *, unsigned file);
/* Opens it once more through /proc. */
int native_reopen(struct native_program *, unsigned file, unsigned ret);
/* A child that does nothing until this program has ended. */
int native_fork(struct native_program *);
/* A child that opens the file, registers one of four events and closes it, again and again. The format has one number. */
int native_churn(struct native_program *, const char *format);
/* Another program of its that keeps a copy of the file open, until this one has ended. */
int native_exec(struct native_program *, unsigned file);
/* In a thread that ends then. */
int native_register_in_thread(struct native_program *, unsigned file, unsigned word, const char *description);
/* The host's own file. */
int native_open_tracefs(struct native_program *);
/* As a thread of its own registers the one, another one writes the other into the same memory. Returns the last errno. */
int native_race(struct native_program *, unsigned rounds, const char *allowed, const char *forbidden);
/* Gives it a copy of this file. */
void native_take(struct native_program *, unsigned file, int fd);
/* Gives a copy of the file to another program. */
void native_pass(struct native_program *from, unsigned file, struct native_program *to, unsigned ret);
