/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ring buffers of an instance: one for each CPU, read a page at a time, in the kernel's own format. Pages are merged by the
 * times of their records. A buffer that was empty *after* a moment holds no record from before that moment: so the records up
 * to a horizon are in order, also if other CPUs record meanwhile.
 *
 * A page says that records before it were overwritten, and, if it has room, also their number. Otherwise the number comes from the
 * buffer's own count.
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
	uint64_t empty_at; /* the horizon at which it was empty */
	uint64_t missed;   /* not passed on yet */
	uint64_t missed_ever;
};

struct buffers {
	struct tracefs_instance *instance;
	size_t page_bytes;
	struct cpu_buffer *given; /* of the record that the caller has */
	size_t n;
	struct cpu_buffer cpu[];
};

/* 0, or a negative errno; 0 also for a CPU that is not there, which records nothing. */
static int cpu_buffer_open(struct buffers *buffers, struct cpu_buffer *cpu, unsigned number, int epoll,
			   enum kbuffer_long_size size)
{
	struct epoll_event event = { .events = EPOLLIN };
	char name[64];

	*cpu = (struct cpu_buffer){ .cpu = number, .fd = -1 };
	snprintf(name, sizeof(name), "per_cpu/cpu%u/trace_pipe_raw", number);
	cpu->fd = tracefs_instance_file_open(buffers->instance, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (cpu->fd < 0)
		return errno == ENOENT && number > 0 ? 0 : -errno;
	cpu->page = must(malloc(buffers->page_bytes));
	cpu->kbuffer = must(kbuffer_alloc(size, KBUFFER_ENDIAN_SAME_AS_HOST));
	return epoll_ctl(epoll, EPOLL_CTL_ADD, cpu->fd, &event) < 0 ? -errno : 0;
}

int buffers_open(struct tracefs_instance *instance, int epoll, struct buffers **ret)
{
	long cpus = MAX(sysconf(_SC_NPROCESSORS_CONF), 1L);
	_cleanup_(buffers_freep) struct buffers *buffers =
		must(calloc(1, sizeof(*buffers) + (size_t)cpus * sizeof(buffers->cpu[0])));
	_cleanup_(freep) char *header = tracefs_text("events/header_page");
	struct tep_handle *tep = must(tep_alloc());
	enum kbuffer_long_size size = KBUFFER_LSIZE_SAME_AS_HOST;
	long long kilobytes = 0;
	int r = 0;

	/* A 64-bit kernel's long is longer than that of a 32-bit program. */
	if (header && tep_parse_header_page(tep, header, strlen(header), sizeof(long)) == 0)
		size = tep_get_header_page_size(tep) == 8 ? KBUFFER_LSIZE_8 : KBUFFER_LSIZE_4;
	tep_free(tep);
	/* Since Linux 6.8 each instance may have sub-buffers of its own size; before, a sub-buffer is a page. */
	if (tracefs_instance_file_read_number(instance, "buffer_subbuf_size_kb", &kilobytes) != 0)
		kilobytes = 0;
	buffers->instance = instance;
	buffers->page_bytes = kilobytes > 0 ? (size_t)kilobytes * 1024 : (size_t)sysconf(_SC_PAGESIZE);
	for (long i = 0; r == 0 && i < cpus; i++)
		r = cpu_buffer_open(buffers, &buffers->cpu[buffers->n++], (unsigned)i, epoll, size);
	if (r == 0)
		*ret = steal_pointer(buffers);
	return r;
}

struct buffers *buffers_free(struct buffers *buffers)
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

static void count_missed(const struct buffers *buffers, struct cpu_buffer *cpu)
{
	int count = kbuffer_missed_events(cpu->kbuffer);
	_cleanup_(freep) char *text = NULL;
	uint64_t missed = (uint64_t)count, overrun = 0;
	const char *line;
	char name[64];

	if (count == 0)
		return;
	if (count < 0) {
		snprintf(name, sizeof(name), "per_cpu/cpu%u/stats", cpu->cpu);
		text = tracefs_instance_file_read(buffers->instance, name, NULL);
		line = text ? strstr(text, "\noverrun:") : NULL;
		if (line)
			sscanf(line, "\noverrun: %" SCNu64, &overrun);
		missed = overrun > cpu->missed_ever ? overrun - cpu->missed_ever : 1;
	}
	cpu->missed += missed;
	cpu->missed_ever += missed;
}

/* Whether there is a record of this CPU now. */
static bool cpu_buffer_fill(const struct buffers *buffers, struct cpu_buffer *cpu, uint64_t horizon)
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

bool buffers_next(struct buffers *buffers, uint64_t horizon, struct buffer_record *ret)
{
	struct cpu_buffer *oldest = NULL, *cpu = buffers->given;

	if (cpu)
		cpu->data = kbuffer_next_event(cpu->kbuffer, &cpu->time);
	for (cpu = buffers->cpu; cpu < buffers->cpu + buffers->n; cpu++)
		if (cpu_buffer_fill(buffers, cpu, horizon) && cpu->time <= horizon &&
		    (!oldest || cpu->time < oldest->time))
			oldest = cpu;
	cpu = buffers->given = oldest;
	if (cpu) {
		*ret = (struct buffer_record){
			.time = cpu->time,
			.missed = cpu->missed,
			.data = cpu->data,
			.size = (size_t)kbuffer_event_size(cpu->kbuffer),
		};
		cpu->missed = 0;
		return true;
	}
	/* Records that were overwritten, and have no record behind them yet. */
	*ret = (struct buffer_record){ .time = horizon };
	for (size_t i = 0; i < buffers->n; i++) {
		if (buffers->cpu[i].data)
			continue;
		ret->missed += buffers->cpu[i].missed;
		buffers->cpu[i].missed = 0;
	}
	return ret->missed > 0;
}

bool buffers_waiting(const struct buffers *buffers)
{
	for (size_t i = 0; i < buffers->n; i++)
		if (buffers->cpu[i].data)
			return true;
	return false;
}
