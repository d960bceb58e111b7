/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The library's file descriptors, and whether they are still the library's. */

#include <stdbool.h>
#include <sys/types.h>

/* Of <linux/magic.h>: a C library alone does not have the kernel's headers. */
enum { MAGIC_TMPFS = 0x01021994, MAGIC_TRACEFS = 0x74726163 };

/* Identifies an open file: a program may close all of its fds, and reuse their numbers. */
struct file_id {
	dev_t device;
	ino_t inode;
};

/* Moves the fd to a number that programs rarely use, and returns that. */
int file_move_up(int fd);
void file_identify(int fd, struct file_id *ret);
bool file_is(int fd, const struct file_id *);
/* Whether writing records there can neither block nor raise a signal. */
bool file_is_data_file(int fd);
