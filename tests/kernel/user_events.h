/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * For the tests of what the kernel promises: user_events as it is, without a daemon. They need root and a machine of their
 * own (a guest): they switch events on and off and change a sysctl.
 *
 *	TEST(a_file_keeps_its_event)
 *	{
 *		_cleanup_(machine_leave) struct machine machine = machine_enter();
 *		…
 *	}
 *	END_TEST
 *
 *	PROMISES("lifetime", EITHER(a_file_keeps_its_event), ENABLE_ADDRESS(an_enabler_keeps_its_event))
 *
 * Failures are returned as negative errnos.
 */

#include <sys/types.h>

#include "kernel/uapi.h"
#include "tests/suite.h"

#define TRACEFS "/sys/kernel/tracing"

enum abi { ABI_ENABLE_ADDRESS = 1, ABI_STATUS_PAGE = 2 };

/* Detected by a registration. */
enum abi abi_of_this_kernel(void);

struct promise {
	const TTest *test;
	int abis;
};

#define EITHER(test)                                                                                                   \
	{                                                                                                              \
		test, ABI_ENABLE_ADDRESS | ABI_STATUS_PAGE                                                             \
	}
#define ENABLE_ADDRESS(test)                                                                                           \
	{                                                                                                              \
		test, ABI_ENABLE_ADDRESS                                                                               \
	}
#define STATUS_PAGE(test)                                                                                              \
	{                                                                                                              \
		test, ABI_STATUS_PAGE                                                                                  \
	}

/* Runs the tests of this kernel's ABI; the other ABI has tests of its own. */
int keep_promises(const char *suite, const struct promise *, size_t n);

#define PROMISES(name, ...)                                                                                            \
	int main(void)                                                                                                 \
	{                                                                                                              \
		const struct promise promises[] = { __VA_ARGS__ };                                                     \
		return keep_promises(name, promises, ARRAY_SIZE(promises));                                            \
	}

/* Two events that only this test uses. */
struct machine {
	enum abi abi;
	char event[32]; /* a name */
	char text[64];	/* "NAME u32 value" */
	char other[32];
	char other_text[64];
	int data; /* a data file */
};

/* Removes the events of a failed test. */
struct machine machine_enter(void);
/* Switches the test's events off and waits until the kernel has deleted them; the older ABI needs a request for that. */
void machine_leave(struct machine *);

int data_open(int mode);

/* Raw. */
int register_raw(int data, const void *request);
int delete_event(int data, const char *name);

/* On both ABIs: only the file has a reference to the event. Returns the write index. */
int join(int data, const char *text);

/*
 * Enable address: registers with a bit of the 64-bit word at that address. Returns the write index. machine_leave() unregisters the
 * rest.
 */
int enable(int data, const char *text, const void *address, unsigned bit);
int enable_with(int data, const char *text, uint16_t flags, const void *address, unsigned bit);
int disable(int data, const void *address, unsigned bit);

/* Status page: registers for the bit that the kernel chooses. Returns the write index. */
int register_for_bit(int data, const char *text, uint32_t *ret_bit);

/* Writes a record by one writev(). Returns the bytes written, without the index. */
int write_record(int data, int index, const void *payload, size_t size);
int write_value(int data, int index);

/* Through tracefs, in the group "user_events". Asserts success. */
void switch_event(const char *name, bool on);
/* The event's records in ftrace's buffer, which is empty when a test begins. */
unsigned count_records(const char *name);
unsigned count_all_records(void);
/* The pid in the event's last record. */
pid_t writer_of_last_record(const char *name);

/* Whether user_events_status lists it. */
bool event_exists(const char *name);
/* Its line in that file, without the newline; "" if there is none. */
void status_line(const char *name, char *ret, size_t size);
/* The number after "Active:" and similar titles; -1 if there is none. */
long status_number(const char *key);

/* Reads a whole file into a string. Asserts success. */
void read_file(const char *path, char *ret, size_t size);
/* Asserts nothing. */
int write_file(const char *path, const char *text);
/* "events/user_events/NAME/FILE" */
void event_path(const char *name, const char *file, char *ret, size_t size);

/* Waits until the kernel has finished the work that earlier calls have queued. */
void let_the_kernel_catch_up(struct machine *);

/* Waits up to ten seconds until the expression is true. */
#define eventually(condition)                                                                                          \
	({                                                                                                             \
		bool held_ = false;                                                                                    \
		for (int i_ = 0; !held_ && i_ < 12000; i_++) {                                                         \
			held_ = (condition);                                                                           \
			if (!held_)                                                                                    \
				usleep(5000);                                                                          \
		}                                                                                                      \
		held_;                                                                                                 \
	})
