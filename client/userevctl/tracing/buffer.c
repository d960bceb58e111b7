/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ring buffers of an instance: one for each CPU, read a page at a time, in the kernel's own format. Pages are merged by the
 * times of their records. A buffer that was empty *after* a moment holds no record from before that moment: so the records up
 * to a horizon are in order, also if other CPUs record meanwhile.
 */

#include "client/userevctl/tracing/tracefs.h"

struct cpu_buffer {
	int fd;
	struct ring_page page;
	struct ring_entry next; /* at the page's time */
	bool has_next;		/* otherwise a page has to be read first */
	uint64_t empty_at;	/* the horizon at which it was empty */
	uint64_t missed;	/* not passed on yet */
	uint64_t overrun;	/* the buffer's own count of overwritten records, when it was read last */
};

int buffers_open(struct follower *follower, const char *file)
{
	const long cpus = MAX(sysconf(_SC_NPROCESSORS_CONF), 1L);
	_cleanup_(freep) char *header = tracefs_instance_file_read(NULL, "events/header_page", NULL);
	const char *data = header ? strstr(header, "data;") : NULL;

	/* A 64-bit kernel's long is longer than that of a 32-bit program. */
	if (!data || sscanf(data, "data; offset:%zu", &follower->page_header) != 1)
		follower->page_header = RING_HEADER;
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
		cpu->page.size = (size_t)sysconf(_SC_PAGESIZE);
		cpu->page.at = must(malloc(cpu->page.size));
	}
	return 0;
}

void buffers_close(struct follower *follower)
{
	for (struct cpu_buffer *cpu = follower->cpus; cpu < follower->cpus + follower->n_cpus; cpu++) {
		fd_close(cpu->fd);
		free(cpu->page.at);
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
	while (!cpu->has_next && cpu->fd >= 0 && cpu->empty_at != horizon) {
		if (read(cpu->fd, cpu->page.at, cpu->page.size) <= 0) {
			cpu->empty_at = horizon;
			break;
		}
		if (!ring_page_open(&cpu->page, follower->page_header))
			continue;
		/*
		 * Records before this page were overwritten. Not every page has room for their number: the buffer counts them. Those of
		 * a snapshot are counted as a whole.
		 */
		if (cpu->page.missed && !follower->is_snapshot) {
			struct buffer_stats stats = { .overrun = cpu->overrun };

			buffer_read_stats(follower->instance, (size_t)(cpu - follower->cpus), &stats);
			cpu->missed += stats.overrun - cpu->overrun;
			cpu->overrun = stats.overrun;
		}
		cpu->has_next = ring_page_next(&cpu->page, &cpu->next) > 0;
	}
	return cpu->has_next;
}

/* Of the CPU with the oldest one: false if there is none. Those of this CPU up to `follower->until` are the next ones of all. */
static bool find_next(struct follower *follower, uint64_t horizon, struct buffer_record *ret)
{
	struct cpu_buffer *oldest = NULL;

	follower->until = horizon;
	follower->tracing->busy = false;
	for (struct cpu_buffer *cpu = follower->cpus; cpu < follower->cpus + follower->n_cpus; cpu++) {
		if (!cpu_buffer_fill(follower, cpu, horizon)) {
			/* Records that were overwritten, and have no record behind them yet. */
			ret->missed += cpu->missed;
			cpu->missed = 0;
		} else if (cpu->page.time > horizon) {
			follower->tracing->busy = true;
		} else if (!oldest || cpu->page.time < oldest->page.time) {
			follower->until = oldest ? oldest->page.time : horizon;
			oldest = cpu;
		} else {
			follower->until = MIN(follower->until, cpu->page.time);
		}
	}
	follower->given = oldest;
	if (!oldest)
		return false;
	ret->missed += oldest->missed;
	oldest->missed = 0;
	return true;
}

bool buffers_next(struct follower *follower, uint64_t horizon, struct buffer_record *ret)
{
	struct cpu_buffer *cpu = follower->given;

	*ret = (struct buffer_record){ .time = horizon };
	if (cpu)
		cpu->has_next = ring_page_next(&cpu->page, &cpu->next) > 0;
	if (!cpu || !cpu->has_next || cpu->page.time > follower->until) {
		if (!find_next(follower, horizon, ret))
			return ret->missed > 0;
		cpu = follower->given;
	}
	ret->time = cpu->page.time;
	ret->entry = &cpu->next;
	return true;
}
