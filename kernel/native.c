/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/native.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static const char *const pins[NATIVE_FILES] = {
	[NATIVE_SHARED] = "shared", [NATIVE_NOTES] = "notes", [NATIVE_LIST] = "list", [NATIVE_SWEEP] = "sweep"
};

int native_pin_open(const char *directory, enum native_file file)
{
	char path[256];
	union bpf_attr attributes = { .pathname = (uintptr_t)path };
	long fd;

	snprintf(path, sizeof(path), "%s/" ADMISSION_MAP "%s", directory, pins[file]);
	if (file == NATIVE_LIST || file == NATIVE_SWEEP)
		fd = open(path, O_PATH | O_CLOEXEC);
	else
		fd = syscall(SYS_bpf, BPF_OBJ_GET, &attributes, sizeof(attributes));
	if (fd < 0)
		return -errno;
	/* Otherwise it and the map that is mapped look like one file to systemd, where the kernel has no kcmp(). */
	if (file == NATIVE_NOTES && fcntl((int)fd, F_SETFL, O_NONBLOCK) < 0) {
		fd_close((int)fd);
		return -errno;
	}
	return (int)fd;
}

/* --- notes: the kernel's ring buffer, with a page for each position --- */

struct ring {
	size_t page;
	volatile uint64_t *read; /* up to here */
	const volatile uint64_t *written;
	const uint8_t *bytes; /* twice, one behind the other */
};

static int ring_open(int fd, struct ring **ret)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	void *ours, *theirs;
	int r;

	if (!ring)
		return -ENOMEM;
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ours = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	theirs = mmap(NULL, ring->page + 2 * (size_t)ADMISSION_NOTES, PROT_READ, MAP_SHARED, fd, (off_t)ring->page);
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
	munmap((void *)(uintptr_t)ring->written, ring->page + 2 * (size_t)ADMISSION_NOTES);
	free(ring);
}

bool native_read_note(const struct native *native, struct admission_note *ret)
{
	const struct ring *ring = native->ring;
	uint64_t at = *ring->read;

	while (at < __atomic_load_n(ring->written, __ATOMIC_ACQUIRE)) {
		const uint8_t *entry = ring->bytes + at % ADMISSION_NOTES;
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

/* --- the shared memory --- */

int native_new(const int fds[NATIVE_FILES], struct native **ret)
{
	struct native *native = calloc(1, sizeof(*native));
	struct ring *ring = NULL;
	void *shared;
	int r = native ? 0 : -ENOMEM;

	if (r < 0) {
		for (enum native_file i = 0; i < NATIVE_FILES; i++)
			fd_close(fds[i]);
		return r;
	}
	memcpy(native->fd, fds, sizeof(native->fd));
	shared = mmap(NULL, sizeof(*native->shared), PROT_READ | PROT_WRITE, MAP_SHARED, native->fd[NATIVE_SHARED], 0);
	if (shared == MAP_FAILED)
		r = -errno;
	else
		native->shared = shared;
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
	if (native->shared)
		munmap(native->shared, sizeof(*native->shared));
	for (enum native_file i = 0; i < NATIVE_FILES; i++)
		fd_close(native->fd[i]);
	free(native);
	return NULL;
}

/* --- tenants: a table in the shared memory --- */

static struct admission_tenant *tenant_at(const struct native *native, uint64_t cgroup, unsigned i)
{
	return &native->shared->tenants[(admission_hash(cgroup) + i) & (ADMISSION_TENANTS - 1)];
}

static struct admission_tenant *tenant_find(const struct native *native, uint64_t cgroup)
{
	if (cgroup == NATIVE_PROVER)
		return &native->shared->tenants[ADMISSION_TENANTS];
	for (unsigned i = 0; i < ADMISSION_PROBES; i++) {
		struct admission_tenant *tenant = tenant_at(native, cgroup, i);

		if (tenant->cgroup == cgroup)
			return tenant;
		if (tenant->cgroup == 0)
			break;
	}
	return NULL;
}

static struct admission_tenant *tenant_find_free(const struct native *native, uint64_t cgroup)
{
	for (unsigned i = 0; i < ADMISSION_PROBES; i++) {
		struct admission_tenant *tenant = tenant_at(native, cgroup, i);

		if (tenant->cgroup == 0 || tenant->cgroup == ADMISSION_GONE)
			return tenant;
	}
	return NULL;
}

/* The turn of a daemon that was killed meanwhile is odd already. */
static void tenant_write(struct admission_tenant *tenant, uint64_t cgroup, const struct admission_tenant *values)
{
	const unsigned turn = tenant->turn | 1;

	__atomic_store_n(&tenant->turn, turn, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	tenant->flags = values->flags;
	tenant->quota = values->quota;
	tenant->share = values->share;
	tenant->pool = values->pool;
	tenant->rules = values->rules;
	memcpy(tenant->reserves, values->reserves, sizeof(tenant->reserves));
	__atomic_store_n(&tenant->cgroup, cgroup, __ATOMIC_SEQ_CST);
	__atomic_store_n(&tenant->turn, turn + 1, __ATOMIC_SEQ_CST);
}

int native_set_tenant(const struct native *native, uint64_t cgroup, const struct admission_tenant *values)
{
	struct admission_tenant *tenant = tenant_find(native, cgroup);

	if (!tenant)
		tenant = tenant_find_free(native, cgroup);
	if (!tenant)
		return -ENOSPC;
	tenant_write(tenant, cgroup, values);
	return 0;
}

void native_remove_tenant(const struct native *native, uint64_t cgroup)
{
	static const struct admission_tenant nobody;
	struct admission_tenant *tenant = tenant_find(native, cgroup);

	if (tenant)
		tenant_write(tenant, cgroup == NATIVE_PROVER ? NATIVE_PROVER : ADMISSION_GONE, &nobody);
}

/* --- the list, and the sweep --- */

static int file_open(const struct native *native, enum native_file file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", native->fd[file]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Reads until the end, or `size` bytes. Returns how many, or a negative errno. */
static ssize_t file_read(int fd, void *ret, size_t size)
{
	size_t got = 0;

	while (got < size) {
		const ssize_t n = read(fd, (char *)ret + got, size - got);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int native_list(const struct native *native, struct admission_listed **ret, size_t *ret_n)
{
	enum { AT_FIRST = 64 };
	_cleanup_(fd_closep) int fd = file_open(native, NATIVE_LIST);
	struct admission_listed *list = NULL;
	size_t n = 0, room = 0;
	ssize_t got;

	if (fd < 0)
		return fd;
	do {
		struct admission_listed *larger = reallocarray(list, room ? 2 * room : AT_FIRST, sizeof(*list));

		if (!larger) {
			free(list);
			return -ENOMEM;
		}
		list = larger;
		room = room ? 2 * room : AT_FIRST;
		got = file_read(fd, list + n, (room - n) * sizeof(*list));
		n += got > 0 ? (size_t)got / sizeof(*list) : 0;
	} while (got > 0 && n == room);
	if (got < 0) {
		free(list);
		return (int)got;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int native_sweep(const struct native *native)
{
	_cleanup_(fd_closep) int fd = file_open(native, NATIVE_SWEEP);
	uint32_t lingering;
	ssize_t n = fd < 0 ? fd : file_read(fd, &lingering, sizeof(lingering));

	return n < 0 ? (int)n : n == sizeof(lingering) ? (int)lingering : -EIO;
}
