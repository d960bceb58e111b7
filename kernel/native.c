/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/native.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static const char *const pins[NATIVE_MAPS] = {
	[NATIVE_SETTINGS] = "settings", [NATIVE_NODES] = "nodes",   [NATIVE_STATES] = "states",
	[NATIVE_TENANTS] = "tenants",	[NATIVE_GRANTS] = "grants", [NATIVE_NOTES] = "notes",
	[NATIVE_SWEEP] = "sweep",
};

static int call_bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	long r = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	return r < 0 ? -errno : (int)r;
}

static uint64_t pointer(const void *at)
{
	return (uintptr_t)at;
}

int native_pin_open(const char *directory, enum native_map map)
{
	union bpf_attr attributes = { 0 };
	char path[256];

	snprintf(path, sizeof(path), "%s/" ADMISSION_MAP "%s", directory, pins[map]);
	attributes.pathname = pointer(path);
	return call_bpf(BPF_OBJ_GET, &attributes);
}

/* --- notes: the kernel's ring buffer, with a page for each position --- */

struct ring {
	size_t page;
	size_t size;
	volatile uint64_t *read; /* up to here */
	const volatile uint64_t *written;
	const uint8_t *bytes; /* twice, one behind the other */
};

static int ring_open(int fd, struct ring **ret)
{
	struct bpf_map_info info = { 0 };
	union bpf_attr attributes = {
		.info = { .bpf_fd = (uint32_t)fd, .info_len = sizeof(info), .info = pointer(&info) }
	};
	struct ring *ring;
	void *ours, *theirs;
	int r = call_bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes);

	if (r < 0)
		return r;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ring->size = info.max_entries;
	ours = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	theirs = mmap(NULL, ring->page + 2 * ring->size, PROT_READ, MAP_SHARED, fd, (off_t)ring->page);
	if (ours == MAP_FAILED || theirs == MAP_FAILED) {
		r = -errno;
		if (ours != MAP_FAILED)
			munmap(ours, ring->page);
		free(ring);
		return r;
	}
	ring->read = ours;
	ring->written = theirs;
	ring->bytes = (const uint8_t *)theirs + ring->page;
	*ret = ring;
	return 0;
}

static void ring_close(struct ring *ring)
{
	if (!ring)
		return;
	munmap((void *)(uintptr_t)ring->read, ring->page);
	munmap((void *)(uintptr_t)ring->written, ring->page + 2 * ring->size);
	free(ring);
}

bool native_read_note(const struct native *native, struct admission_note *ret)
{
	const struct ring *ring = native->ring;
	uint64_t at = *ring->read;

	while (at < __atomic_load_n(ring->written, __ATOMIC_ACQUIRE)) {
		const uint8_t *entry = ring->bytes + at % ring->size;
		const uint32_t head = __atomic_load_n((const uint32_t *)entry, __ATOMIC_ACQUIRE);
		const uint32_t length = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		const bool good = !(head & BPF_RINGBUF_DISCARD_BIT) && length == sizeof(*ret);

		if (head & BPF_RINGBUF_BUSY_BIT)
			return false;
		if (good)
			memcpy(ret, entry + BPF_RINGBUF_HDR_SZ, sizeof(*ret));
		at += (length + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		__atomic_store_n(ring->read, at, __ATOMIC_RELEASE);
		if (good)
			return true;
	}
	return false;
}

/* --- maps --- */

static int map_one(const struct native *native, enum native_map map, size_t size, void **ret)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, native->fd[map], 0);

	if (at == MAP_FAILED)
		return -errno;
	*ret = at;
	return 0;
}

static int map_all(struct native *native)
{
	void *settings = NULL, *nodes = NULL, *states = NULL;
	int r = map_one(native, NATIVE_SETTINGS, sizeof(*native->settings), &settings);

	if (r == 0)
		r = map_one(native, NATIVE_NODES, ADMISSION_NODES * sizeof(*native->nodes), &nodes);
	if (r == 0)
		r = map_one(native, NATIVE_STATES, ADMISSION_STATES * sizeof(*native->states), &states);
	native->settings = settings;
	native->nodes = nodes;
	native->states = states;
	return r;
}

int native_new(const int fds[NATIVE_MAPS], struct native **ret)
{
	struct native *native = calloc(1, sizeof(*native));
	struct ring *ring = NULL;
	int r = native ? 0 : -ENOMEM;

	if (r < 0) {
		for (enum native_map i = 0; i < NATIVE_MAPS; i++)
			fd_close(fds[i]);
		return r;
	}
	memcpy(native->fd, fds, sizeof(native->fd));
	r = map_all(native);
	if (r == 0)
		r = ring_open(native->fd[NATIVE_NOTES], &ring);
	native->ring = ring;
	if (r < 0) {
		native_free(native);
		return r;
	}
	*ret = native;
	return 0;
}

struct native *native_free(struct native *native)
{
	if (!native)
		return NULL;
	ring_close((struct ring *)(uintptr_t)native->ring);
	if (native->settings)
		munmap(native->settings, sizeof(*native->settings));
	if (native->nodes)
		munmap(native->nodes, ADMISSION_NODES * sizeof(*native->nodes));
	if (native->states)
		munmap(native->states, ADMISSION_STATES * sizeof(*native->states));
	for (enum native_map i = 0; i < NATIVE_MAPS; i++)
		fd_close(native->fd[i]);
	free(native);
	return NULL;
}

static union bpf_attr element(const struct native *native, enum native_map map, const void *key, const void *value)
{
	return (union bpf_attr){ .map_fd = (uint32_t)native->fd[map], .key = pointer(key), .value = pointer(value) };
}

int native_set_tenant(const struct native *native, uint64_t cgroup, const struct admission_tenant *tenant)
{
	union bpf_attr attributes = element(native, NATIVE_TENANTS, &cgroup, tenant);

	return call_bpf(BPF_MAP_UPDATE_ELEM, &attributes);
}

int native_remove_tenant(const struct native *native, uint64_t cgroup)
{
	union bpf_attr attributes = element(native, NATIVE_TENANTS, &cgroup, NULL);

	return call_bpf(BPF_MAP_DELETE_ELEM, &attributes);
}

int native_next_grant(const struct native *native, struct admission_key *key, struct admission_grant *grant)
{
	static const struct admission_key none;
	struct admission_key before = *key;
	union bpf_attr attributes;
	int r;

	/* One that has gone since its key was told is passed over. */
	do {
		attributes =
			element(native, NATIVE_GRANTS, memcmp(&before, &none, sizeof(none)) == 0 ? NULL : &before, key);
		r = call_bpf(BPF_MAP_GET_NEXT_KEY, &attributes);
		if (r < 0)
			return r;
		attributes = element(native, NATIVE_GRANTS, key, grant);
		r = call_bpf(BPF_MAP_LOOKUP_ELEM, &attributes);
		before = *key;
	} while (r == -ENOENT);
	return r;
}

int native_sweep(const struct native *native)
{
	union bpf_attr attributes = { .test = { .prog_fd = (uint32_t)native->fd[NATIVE_SWEEP] } };
	int r = call_bpf(BPF_PROG_TEST_RUN, &attributes);

	return r < 0 ? r : (int)attributes.test.retval;
}
