/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Every way to write to a page by the fd that a client gets. Each writes an 'x' at the page's beginning, and returns 0 or a
 * negative errno.
 */

enum { NO_MAP = -1000 }; /* cannot be mapped, not even for reading */

int map_writable(int fd);
int map_writable_behind(int fd); /* the page's end */
int map_private(int fd);	 /* copy on write */
int make_map_writable(int fd);
int move_map_and_make_it_writable(int fd);
int punch_through_map(int fd);
int write_as_a_debugger(int fd); /* to maps that are read-only */
int write_as_another_process(int fd);
int read_into_map(int fd);
int write_at(int fd);
int write_vector(int fd);
int splice_into(int fd);
int send_file_into(int fd);
int copy_range_into(int fd);
int write_to_spliced_page(int fd);
int write_to_page_in_pipe(int fd);
int set_write_mode(int fd);
int punch(int fd);
int allocate(int fd);
int cut(int fd);
int grow(int fd);
int cut_by_path(int fd);
int reopen_to_write(int fd);
int reopen_to_map(int fd);
int reopen_to_append(int fd);
int reopen_to_cut(int fd);
int reopen_map_file(int fd); /* through /proc/self/map_files */
int reopen_by_handle(int fd);
int change_page_mode(int fd); /* to the mode that it has */
int seal(int fd);
