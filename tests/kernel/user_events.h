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
 * What fails is returned as a negative errno.
 */

#include <sys/types.h>

#include "kernel/uapi.h"
#include "tests/suite.h"

#define TRACEFS "/sys/kernel/tracing"

enum abi { ABI_ENABLE_ADDRESS = 1, ABI_STATUS_PAGE = 2 };

/* Found by registering something. */
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

/* Only those of this kernel's ABI are run: a test of the other says what that one does instead. */
int keep_promises(const char *suite, const struct promise *, size_t n);

#define PROMISES(name, ...)                                                                                            \
	int main(void)                                                                                                 \
	{                                                                                                              \
		const struct promise promises[] = { __VA_ARGS__ };                                                     \
		return keep_promises(name, promises, ARRAY_SIZE(promises));                                            \
	}

/* Two events of the test's own, which nobody else has; by whom they are used is up to the test. */
struct machine {
	enum abi abi;
	char event[32]; /* a name */
	char text[64];	/* "NAME u32 value" */
	char other[32];
	char other_text[64];
	int data; /* a data file */
};

/* Takes away what a failed test left. */
struct machine machine_enter(void);
/* Nothing of the test may be left: switches its events off and waits for them to go, on the older ABI deletes them. */
void machine_leave(struct machine *);

int data_open(int mode);

/* Raw. */
int register_raw(int data, const void *request);
int delete_event(int data, const char *name);

/* On either ABI: the file alone has a reference to the event. The write index. */
int join(int data, const char *text);

/*
 * Enable address: registers with a bit of the 64-bit word at that address. The write index. machine_leave() unregisters what
 * the process of the test has not.
 */
int enable(int data, const char *text, const void *address, unsigned bit);
int enable_with(int data, const char *text, uint16_t flags, const void *address, unsigned bit);
int disable(int data, const void *address, unsigned bit);

/* Status page: the bit is put where it says. The write index. */
int register_for_bit(int data, const char *text, uint32_t *ret_bit);

/* How many bytes were written, without the index; records go with one writev. */
int write_record(int data, int index, const void *payload, size_t size);
int write_value(int data, int index);

/* By tracefs, in "user_events". Asserts that it can be done. */
void switch_event(const char *name, bool on);
/* How often the event is in ftrace's buffer, which is empty when a test begins. */
unsigned count_records(const char *name);
unsigned count_all_records(void);
/* And whose its last record was. */
pid_t writer_of_last_record(const char *name);

/* Whether user_events_status lists it. */
bool event_exists(const char *name);
/* Its line there, without the newline; "" where there is none. */
void status_line(const char *name, char *ret, size_t size);
/* The number after "Active:" and so on; -1 where there is none. */
long status_number(const char *key);

/* A whole file, terminated. Asserts that it can be read. */
void read_file(const char *path, char *ret, size_t size);
/* Asserts nothing. */
int write_file(const char *path, const char *text);
/* "events/user_events/NAME/FILE" */
void event_path(const char *name, const char *file, char *ret, size_t size);

/* Waits until everything has happened that was set off before: what takes time in the kernel takes its turn. */
void let_the_kernel_catch_up(struct machine *);

/* Waits up to ten seconds for it to become true. */
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
