/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ring buffers of an instance: one for each CPU, read a page at a time, in the kernel's own format. Pages are merged by the
 * times of their records. A buffer that was empty *after* a moment holds no record from before that moment: so the records up
 * to a horizon are in order, also if other CPUs record meanwhile.
 */

#include <inttypes.h>
#include <kbuffer.h>

#include "client/userevctl/tracing/tracefs.h"

struct cpu_buffer {
	int fd;
	struct kbuffer *kbuffer;
	uint8_t *page;
	void *data; /* of the next record; NULL: a page has to be read first */
	unsigned long long time;
	uint64_t empty_at; /* the horizon at which it was empty */
	uint64_t missed;   /* not passed on yet */
	uint64_t overrun;  /* the buffer's own count of overwritten records, when it was read last */
};

struct buffers {
	struct tracefs_instance *instance;
	size_t page_bytes;
	struct cpu_buffer *given; /* of the record that the caller has */
	size_t n;
	struct cpu_buffer cpu[];
};

/* 0, or a negative errno; 0 also for a CPU that is not there, which records nothing. */
static int cpu_buffer_open(struct buffers *buffers, unsigned number, enum kbuffer_long_size size)
{
	struct cpu_buffer *cpu = &buffers->cpu[buffers->n++];
	char name[64];

	snprintf(name, sizeof(name), "per_cpu/cpu%u/trace_pipe_raw", number);
	cpu->fd = tracefs_instance_file_open(buffers->instance, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (cpu->fd < 0)
		return errno == ENOENT && number > 0 ? 0 : -errno;
	cpu->page = must(malloc(buffers->page_bytes));
	cpu->kbuffer = must(kbuffer_alloc(size, KBUFFER_ENDIAN_SAME_AS_HOST));
	return 0;
}

int buffers_open(struct tracefs_instance *instance, struct buffers **ret)
{
	long cpus = MAX(sysconf(_SC_NPROCESSORS_CONF), 1L);
	_cleanup_(buffers_freep) struct buffers *buffers =
		must(calloc(1, sizeof(*buffers) + (size_t)cpus * sizeof(buffers->cpu[0])));
	_cleanup_(freep) char *header = tracefs_text("events/header_page");
	struct tep_handle *tep = must(tep_alloc());
	enum kbuffer_long_size size = KBUFFER_LSIZE_SAME_AS_HOST;
	int r = 0;

	/* A 64-bit kernel's long is longer than that of a 32-bit program. */
	if (header && tep_parse_header_page(tep, header, strlen(header), sizeof(long)) == 0)
		size = tep_get_header_page_size(tep) == 8 ? KBUFFER_LSIZE_8 : KBUFFER_LSIZE_4;
	tep_free(tep);
	buffers->instance = instance;
	/* A new instance has sub-buffers of one page. */
	buffers->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	for (long i = 0; r == 0 && i < cpus; i++)
		r = cpu_buffer_open(buffers, (unsigned)i, size);
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

/* Records before this page were overwritten. Not every page has room for their number: the buffer counts them. */
static void count_missed(const struct buffers *buffers, struct cpu_buffer *cpu)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t overrun = cpu->overrun;
	const char *line;
	char name[64];

	snprintf(name, sizeof(name), "per_cpu/cpu%u/stats", (unsigned)(cpu - buffers->cpu));
	text = tracefs_instance_file_read(buffers->instance, name, NULL);
	line = text ? strstr(text, "\noverrun:") : NULL;
	if (line)
		sscanf(line, "\noverrun: %" SCNu64, &overrun);
	cpu->missed += overrun - cpu->overrun;
	cpu->overrun = overrun;
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
		if (kbuffer_missed_events(cpu->kbuffer) != 0)
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
