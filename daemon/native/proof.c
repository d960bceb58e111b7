/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Before any container can open the file, the daemon, which is as unprivileged as their programs, tries what the kernel has to refuse to
 * them: as tenant 0, with room for one event and names of one kind.
 */

#include <sys/mman.h>

#include "daemon/native/automaton.h"
#include "daemon/native/state.h"
#include "kernel/uapi.h"

#define ALLOWED	  "userevd_proof_allowed u32 x"
#define ANOTHER	  "userevd_proof_another u32 x"
#define FORBIDDEN "unproved_by_userevd u32 x"

enum {
	PROOF_QUOTA = ADMISSION_NODES - ADMISSION_PROOF_NODES,
	PROOF_SHARE,
	PROOF_POOL,
	PROOF_RULES = ADMISSION_STATES - ADMISSION_PROOF_STATES,
};

static uint32_t words[4];

static int try_register(int file, unsigned word, const char *description)
{
	struct uapi_register registration = { .size = sizeof(registration),
					      .enable_size = sizeof(words[0]),
					      .enable_address = (uintptr_t)&words[word],
					      .description = (uintptr_t)description };

	return ioctl(file, UAPI_IOCTL_REGISTER, &registration) < 0 ? errno : 0;
}

/* The description is in memory that is not there until the kernel copies it, so only its copy can be judged. */
static int try_absent(int file, const char *description)
{
	_cleanup_(fd_closep) int memory = memfd_create("userevd-proof", MFD_CLOEXEC);
	const size_t size = strlen(description) + 1;
	void *at;
	int r;

	if (memory < 0 || write(memory, description, size) != (ssize_t)size)
		return errno;
	at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, memory, 0);
	if (at == MAP_FAILED)
		return errno;
	r = try_register(file, 3, at);
	munmap(at, size);
	return r;
}

static void set_up(const struct natives *natives, struct admission_tenant *ret)
{
	static const char prefix[] = "userevd_proof_";
	struct native *kernel = natives->kernel;
	struct admission_state *state = &kernel->shared->states[PROOF_RULES];

	automaton_begin(kernel->shared->classes, &kernel->shared->states[0]);
	/* The prefix, and then anything of small letters. */
	memset(state, 0, ADMISSION_PROOF_STATES * sizeof(*state));
	for (size_t i = 0; i + 1 < sizeof(prefix); i++)
		state[i] = (struct admission_state){ .verdict = ADMISSION_NAME_DENIED };
	for (size_t i = 0; i + 1 < sizeof(prefix); i++)
		state[i].next[kernel->shared->classes[(unsigned char)prefix[i]]] = (uint16_t)(PROOF_RULES + i + 1);
	for (unsigned letter = 'a'; letter <= 'z'; letter++)
		state[sizeof(prefix) - 1].next[kernel->shared->classes[letter]] =
			(uint16_t)(PROOF_RULES + sizeof(prefix) - 1);
	for (size_t i = PROOF_QUOTA; i <= PROOF_POOL; i++)
		quota_shared_allow((struct quota_shared *)(void *)&kernel->shared->nodes[i], UINT32_MAX);
	*ret = (struct admission_tenant){
		.quota = PROOF_QUOTA, .share = PROOF_SHARE, .pool = PROOF_POOL, .rules = PROOF_RULES
	};
}

static int try_all(struct native *kernel, int file, struct text *why)
{
	struct uapi_unregister end = { .size = sizeof(end), .disable_address = (uintptr_t)&words[0] };
	struct {
		const char *what;
		int expected, got;
	} trials[] = {
		{ "a name that is not allowed", EPERM, 0 },
		{ "such a name in the kernel's own copy", ENOMEM, 0 },
		{ "an allowed name", 0, 0 },
		{ "one event more than the quota", EDQUOT, 0 },
		{ "deleting an event", EPERM, 0 },
		{ "the end of a registration", 0, 0 },
	};

	trials[0].got = try_register(file, 0, FORBIDDEN);
	trials[1].got = try_absent(file, FORBIDDEN);
	trials[2].got = try_register(file, 0, ALLOWED);
	/* Events of an earlier trial may be there still, and may end at any moment: with this limit there is no room in any case. */
	quota_shared_allow((struct quota_shared *)(void *)&kernel->shared->nodes[PROOF_QUOTA], 0);
	trials[3].got = try_register(file, 1, ANOTHER);
	trials[4].got = ioctl(file, UAPI_IOCTL_DELETE, "userevd_proof_allowed") < 0 ? errno : 0;
	trials[5].got = ioctl(file, UAPI_IOCTL_UNREGISTER, &end) < 0 ? errno : 0;
	for (size_t i = 0; i < ARRAY_SIZE(trials); i++) {
		if (trials[i].got == trials[i].expected)
			continue;
		text_printf(why, "the kernel does not do what its programs are to do: for %s it says \"%s\"",
			    trials[i].what, strerror(trials[i].got));
		return -EOPNOTSUPP;
	}
	return 0;
}

/* A part of it, which makes no event. */
static int try_refusal(int file, struct text *why)
{
	struct uapi_unregister end = { .size = sizeof(end), .disable_address = (uintptr_t)&words[3] };
	const int got = try_absent(file, FORBIDDEN);

	if (got == 0)
		ioctl(file, UAPI_IOCTL_UNREGISTER, &end);
	if (got == ENOMEM)
		return 0;
	text_printf(why, "the kernel takes names that it is to refuse: was a part of the guard removed?");
	return -EOPNOTSUPP;
}

static int as_prover(const struct natives *natives, int file, bool is_look, struct text *why)
{
	struct native *kernel = natives->kernel;
	struct admission_tenant tenant;
	int r;

	set_up(natives, &tenant);
	(void)native_set_tenant(kernel, NATIVE_PROVER, &tenant);
	__atomic_store_n(&kernel->shared->prover, (unsigned long long)getpid(), __ATOMIC_SEQ_CST);
	r = is_look ? try_refusal(file, why) : try_all(kernel, file, why);
	__atomic_store_n(&kernel->shared->prover, 0, __ATOMIC_SEQ_CST);
	native_remove_tenant(kernel, NATIVE_PROVER);
	return r;
}

int native_prove(const struct natives *natives, int file, struct text *why)
{
	return as_prover(natives, file, false, why);
}

/* An admin can remove the guard, and with it what holds programs to the policy. The daemon is no tenant, so it has to be refused. */
int native_look(const struct natives *natives, int file, struct text *why)
{
	if (ioctl(file, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM)
		return as_prover(natives, file, true, why);
	text_printf(why, "the kernel does not refuse registrations any more: was the guard removed?");
	return -EOPNOTSUPP;
}
