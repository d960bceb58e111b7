/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ring buffers of an instance: one for each CPU, read a page at a time, as it is in the kernel's memory. Pages are
 * merged by the records' times. That a buffer was empty *after* a moment says that nothing from before that moment is
 * still to come out of it: so everything up to a horizon is in order, whatever the CPUs do meanwhile.
 *
 * A page says that records before it were overwritten, but only where there is room also how many. Then the buffer's
 * own count does, less what was told already.
 */

#include <inttypes.h>
#include <kbuffer.h>
#include <sys/epoll.h>

#include "client/userevctl/tracing/tracefs.h"

struct cpu_buffer {
	unsigned cpu;
	int fd;
	struct kbuffer *kbuffer;
	uint8_t *page;
	void *data; /* of the next record; NULL: a page has to be read first */
	unsigned long long time;
	uint64_t empty_at; /* the horizon at which nothing was there */
	uint64_t missed;   /* not told yet */
	uint64_t missed_ever;
};

struct trace_buffers {
	struct tracefs_instance *instance;
	size_t page_bytes;
	struct cpu_buffer *given; /* whose record the caller has */
	size_t n;
	struct cpu_buffer cpu[];
};

/* Since 6.8 each instance may have its own size of sub-buffers; before, it is a page. */
static size_t sub_buffer_bytes(struct tracefs_instance *instance)
{
	long long kilobytes = 0;

	if (tracefs_instance_file_read_number(instance, "buffer_subbuf_size_kb", &kilobytes) == 0 && kilobytes > 0)
		return (size_t)kilobytes * 1024;
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* The kernel's long, which may be longer than ours. */
static enum kbuffer_long_size kernel_long(void)
{
	_cleanup_(freep) char *text = tracefs_text("events/header_page", NULL);
	struct tep_handle *tep = tep_alloc();
	enum kbuffer_long_size size = KBUFFER_LSIZE_SAME_AS_HOST;

	if (tep && text && tep_parse_header_page(tep, text, strlen(text), sizeof(long)) == 0)
		size = tep_get_header_page_size(tep) == 8 ? KBUFFER_LSIZE_8 : KBUFFER_LSIZE_4;
	tep_free(tep);
	return size;
}

static int open_cpu(struct trace_buffers *buffers, struct cpu_buffer *cpu, unsigned number, enum kbuffer_long_size size)
{
	char name[64];

	*cpu = (struct cpu_buffer){ .cpu = number, .fd = -1 };
	snprintf(name, sizeof(name), "per_cpu/cpu%u/trace_pipe_raw", number);
	cpu->fd = tracefs_instance_file_open(buffers->instance, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (cpu->fd < 0)
		return -errno;
	cpu->page = malloc(buffers->page_bytes);
	cpu->kbuffer = kbuffer_alloc(size, KBUFFER_ENDIAN_SAME_AS_HOST);
	return cpu->page && cpu->kbuffer ? 0 : -ENOMEM;
}

int trace_buffers_open(struct tracefs_instance *instance, struct trace_buffers **ret)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	enum kbuffer_long_size size = kernel_long();
	_cleanup_(trace_buffers_freep) struct trace_buffers *buffers = NULL;
	int r = 0;

	buffers = calloc(1, sizeof(*buffers) + (size_t)MAX(cpus, 1L) * sizeof(buffers->cpu[0]));
	if (!buffers)
		return -ENOMEM;
	buffers->instance = instance;
	buffers->page_bytes = sub_buffer_bytes(instance);
	for (long i = 0; r == 0 && i < MAX(cpus, 1L); i++) {
		r = open_cpu(buffers, &buffers->cpu[buffers->n++], (unsigned)i, size);
		/* One that is not there, records nothing. */
		if (r == -ENOENT && buffers->n > 1)
			r = 0;
	}
	if (r < 0)
		return r;
	*ret = steal_pointer(buffers);
	return 0;
}

struct trace_buffers *trace_buffers_free(struct trace_buffers *buffers)
{
	for (size_t i = 0; buffers && i < buffers->n; i++) {
		fd_close(buffers->cpu[i].fd);
		if (buffers->cpu[i].kbuffer)
			kbuffer_free(buffers->cpu[i].kbuffer);
		free(buffers->cpu[i].page);
	}
	free(buffers);
	return NULL;
}

int trace_buffers_watch(struct trace_buffers *buffers, int epoll)
{
	struct epoll_event event = { .events = EPOLLIN };

	for (size_t i = 0; i < buffers->n; i++)
		if (buffers->cpu[i].fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, buffers->cpu[i].fd, &event) < 0)
			return -errno;
	return 0;
}

/* How many records of this CPU were ever overwritten before they were read; 0 where that cannot be known. */
static uint64_t read_overrun(const struct trace_buffers *buffers, const struct cpu_buffer *cpu)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t overrun = 0;
	char name[64];

	snprintf(name, sizeof(name), "per_cpu/cpu%u/stats", cpu->cpu);
	text = tracefs_instance_file_read(buffers->instance, name, NULL);
	if (text)
		text_find_number(text, "overrun", &overrun);
	return overrun;
}

static void count_missed(const struct trace_buffers *buffers, struct cpu_buffer *cpu)
{
	int said = kbuffer_missed_events(cpu->kbuffer);
	uint64_t missed = (uint64_t)said, ever;

	if (said == 0)
		return;
	if (said < 0) {
		ever = read_overrun(buffers, cpu);
		missed = ever > cpu->missed_ever ? ever - cpu->missed_ever : 1;
	}
	cpu->missed += missed;
	cpu->missed_ever += missed;
}

/* Whether there is a record of this CPU now. */
static bool fill(const struct trace_buffers *buffers, struct cpu_buffer *cpu, uint64_t horizon)
{
	while (!cpu->data && cpu->fd >= 0 && cpu->empty_at != horizon) {
		ssize_t n = read(cpu->fd, cpu->page, buffers->page_bytes);

		if (n <= 0 || kbuffer_load_subbuffer(cpu->kbuffer, cpu->page) < 0) {
			cpu->empty_at = horizon;
			break;
		}
		count_missed(buffers, cpu);
		cpu->data = kbuffer_read_event(cpu->kbuffer, &cpu->time);
	}
	return cpu->data;
}

static struct cpu_buffer *find_oldest(struct trace_buffers *buffers, uint64_t horizon)
{
	struct cpu_buffer *oldest = NULL;

	for (size_t i = 0; i < buffers->n; i++) {
		struct cpu_buffer *cpu = &buffers->cpu[i];

		if (fill(buffers, cpu, horizon) && cpu->time <= horizon && (!oldest || cpu->time < oldest->time))
			oldest = cpu;
	}
	return oldest;
}

/* What was overwritten and had nothing behind it. */
static bool give_missed(struct trace_buffers *buffers, uint64_t horizon, struct trace_record *ret)
{
	*ret = (struct trace_record){ .time = horizon };
	for (size_t i = 0; i < buffers->n; i++) {
		if (buffers->cpu[i].data)
			continue;
		ret->missed += buffers->cpu[i].missed;
		buffers->cpu[i].missed = 0;
	}
	return ret->missed > 0;
}

bool trace_buffers_next(struct trace_buffers *buffers, uint64_t horizon, struct trace_record *ret)
{
	struct cpu_buffer *cpu = buffers->given;

	if (cpu)
		cpu->data = kbuffer_next_event(cpu->kbuffer, &cpu->time);
	cpu = buffers->given = find_oldest(buffers, horizon);
	if (!cpu)
		return give_missed(buffers, horizon, ret);
	*ret = (struct trace_record){
		.time = cpu->time,
		.missed = cpu->missed,
		.data = cpu->data,
		.size = (size_t)kbuffer_event_size(cpu->kbuffer),
	};
	cpu->missed = 0;
	return true;
}

bool trace_buffers_waiting(const struct trace_buffers *buffers)
{
	for (size_t i = 0; i < buffers->n; i++)
		if (buffers->cpu[i].data)
			return true;
	return false;
}
