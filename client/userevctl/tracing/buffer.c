/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ring buffers of an instance: one for each CPU, read a page at a time, in the kernel's own format. Pages are merged by the
 * times of their records. A buffer that was empty *after* a moment holds no record from before that moment: so the records up
 * to a horizon are in order, also if other CPUs record meanwhile.
 */

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

int buffers_open(struct follower *follower, const char *file)
{
	long cpus = MAX(sysconf(_SC_NPROCESSORS_CONF), 1L);
	_cleanup_(freep) char *header = tracefs_instance_file_read(NULL, "events/header_page", NULL);
	struct tep_handle *tep = must(tep_alloc());
	enum kbuffer_long_size size = KBUFFER_LSIZE_SAME_AS_HOST;

	/* A 64-bit kernel's long is longer than that of a 32-bit program. */
	if (header && tep_parse_header_page(tep, header, strlen(header), sizeof(long)) == 0)
		size = tep_get_header_page_size(tep) == 8 ? KBUFFER_LSIZE_8 : KBUFFER_LSIZE_4;
	tep_free(tep);
	follower->cpus = must(calloc((size_t)cpus, sizeof(*follower->cpus)));
	while (follower->n_cpus < (size_t)cpus) {
		struct cpu_buffer *cpu = &follower->cpus[follower->n_cpus];
		char name[64];

		snprintf(name, sizeof(name), "per_cpu/cpu%zu/%s", follower->n_cpus++, file);
		cpu->fd = tracefs_instance_file_open(follower->instance, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		/* A CPU that is not there records nothing. */
		if (cpu->fd < 0 && (errno != ENOENT || follower->n_cpus == 1))
			return -errno;
		/* A new instance has sub-buffers of one page. */
		cpu->page = must(malloc((size_t)sysconf(_SC_PAGESIZE)));
		cpu->kbuffer = must(kbuffer_alloc(size, KBUFFER_ENDIAN_SAME_AS_HOST));
	}
	return 0;
}

void buffers_close(struct follower *follower)
{
	for (struct cpu_buffer *cpu = follower->cpus; cpu < follower->cpus + follower->n_cpus; cpu++) {
		fd_close(cpu->fd);
		if (cpu->kbuffer)
			kbuffer_free(cpu->kbuffer);
		free(cpu->page);
	}
	free(follower->cpus);
}

void buffer_read_stats(struct tracefs_instance *instance, size_t cpu, struct buffer_stats *ret)
{
	_cleanup_(freep) char *text = NULL;
	char name[64];

	snprintf(name, sizeof(name), "per_cpu/cpu%zu/stats", cpu);
	text = tracefs_instance_file_read(instance, name, NULL);
	if (text)
		text_read_stats(text, ret);
}

/* Whether there is a record of this CPU now. */
static bool cpu_buffer_fill(const struct follower *follower, struct cpu_buffer *cpu, uint64_t horizon)
{
	while (!cpu->data && cpu->fd >= 0 && cpu->empty_at != horizon) {
		ssize_t n = read(cpu->fd, cpu->page, (size_t)sysconf(_SC_PAGESIZE));

		if (n <= 0 || kbuffer_load_subbuffer(cpu->kbuffer, cpu->page) < 0) {
			cpu->empty_at = horizon;
			break;
		}
		/*
		 * Records before this page were overwritten. Not every page has room for their number: the buffer counts them. Those of
		 * a snapshot are counted as a whole.
		 */
		if (kbuffer_missed_events(cpu->kbuffer) != 0 && !follower->is_snapshot) {
			struct buffer_stats stats = { .overrun = cpu->overrun };

			buffer_read_stats(follower->instance, (size_t)(cpu - follower->cpus), &stats);
			cpu->missed += stats.overrun - cpu->overrun;
			cpu->overrun = stats.overrun;
		}
		cpu->data = kbuffer_read_event(cpu->kbuffer, &cpu->time);
	}
	return cpu->data;
}

bool buffers_next(struct follower *follower, uint64_t horizon, struct buffer_record *ret)
{
	struct cpu_buffer *oldest = NULL, *cpu = follower->given;

	if (cpu)
		cpu->data = kbuffer_next_event(cpu->kbuffer, &cpu->time);
	*ret = (struct buffer_record){ .time = horizon };
	follower->tracing->busy = false;
	for (cpu = follower->cpus; cpu < follower->cpus + follower->n_cpus; cpu++) {
		if (!cpu_buffer_fill(follower, cpu, horizon)) {
			/* Records that were overwritten, and have no record behind them yet. */
			ret->missed += cpu->missed;
			cpu->missed = 0;
		} else if (cpu->time > horizon) {
			follower->tracing->busy = true;
		} else if (!oldest || cpu->time < oldest->time) {
			oldest = cpu;
		}
	}
	follower->given = oldest;
	if (!oldest)
		return ret->missed > 0;
	ret->time = oldest->time;
	ret->missed += oldest->missed;
	ret->data = oldest->data;
	ret->size = (size_t)kbuffer_event_size(oldest->kbuffer);
	oldest->missed = 0;
	return true;
}
